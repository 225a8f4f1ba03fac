{{/*
Fields of a pod and its container that both programs share. Each takes a dict:
  top: the chart's own context; program: the values of the program.
  app, role: labels of the pod, and the name of its ServiceAccount; role is optional.
*/}}

{{- define "activator.podFields" -}}
serviceAccountName: {{ .app }}
{{- with .top.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Kubernetes sets environment variables for each Service of the namespace. A Service named
# activator-http would set ACTIVATOR_HTTP_PORT.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ int .program.terminationGracePeriodSeconds }}
{{- range $field, $value := pick .program "affinity" "nodeSelector" "tolerations" "topologySpreadConstraints" "volumes" }}
{{- with $value }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .program.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- toYaml .program.podSecurityContext | nindent 2 }}
{{- end }}

{{- define "activator.containerFields" -}}
image: {{ include "activator.image" .top | quote }}
{{- with .top.Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
{{- range $field, $value := pick .program "livenessProbe" "readinessProbe" "resources" "securityContext" "startupProbe" "volumeMounts" }}
{{- with $value }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels and annotations of a pod; container: the one for `kubectl logs` and `kubectl exec`. */}}
{{- define "activator.podMetadata" -}}
{{- $labels := merge (dict "app" .app) (include "activator.podLabels" .top | fromYaml) }}
{{- if .role }}
{{- $_ := set $labels "role" .role }}
{{- end -}}
labels:
  {{- toYaml (merge $labels .program.podLabels) | nindent 2 }}
annotations:
  {{- toYaml (merge (dict) .program.podAnnotations (dict "kubectl.kubernetes.io/default-container" .container)) | nindent 2 }}
{{- end }}

{{/* Environment variables that name the pod. */}}
{{- define "activator.identity" -}}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
- name: POD_IPS
  valueFrom:
    fieldRef:
      fieldPath: status.podIPs
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
