{{/* The cluster's DNS, and the DNS cache on each node: an egress rule. */}}
{{- define "activator.dnsEgress" -}}
- to:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: kube-system
      podSelector:
        matchLabels:
          k8s-app: kube-dns
    {{- with .Values.networkPolicies.dnsCache }}
    - ipBlock:
        cidr: {{ . }}
    {{- end }}
  ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end }}

{{/* The API server, which is usually no pod: an egress rule. */}}
{{- define "activator.apiServerEgress" -}}
- ports:
    - port: 443
    - port: 6443
{{- end }}

{{/* Pods of any of these namespaces: an entry of `from`. Takes a list. */}}
{{- define "activator.fromNamespaces" -}}
- namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ toJson . }}
{{- end }}

{{/* Pods of one namespace: an entry of `from`. Takes its name. */}}
{{- define "activator.fromNamespace" -}}
- namespaceSelector:
    matchLabels:
      kubernetes.io/metadata.name: {{ . }}
{{- end }}
