{{/* One line for each value that contradicts another one; empty if there is none. */}}
{{- define "activator.problems" -}}
{{- if not .Values.image.repository }}
- image.repository is empty: name the repository to which you pushed the image.
{{- else if not (regexMatch "^([A-Za-z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*$" .Values.image.repository) }}
- image.repository is {{ quote .Values.image.repository }}: write it in lower case and without https://; the tag is image.tag, the digest image.digest.
{{- end }}
{{- if and .Values.image.tag (not (regexMatch "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$" .Values.image.tag)) }}
- image.tag is {{ quote .Values.image.tag }}: a tag has letters, digits, "_", "." and "-"; the digest is image.digest.
{{- end }}
{{- if and (include "activator.knative" .) (eq .Release.Namespace "default") }}
- the namespace is default: dialect {{ .Values.dialect }} needs Knative's, usually --namespace knative-serving.
{{- end }}
{{- if and (include "activator.knative" .) (semverCompare "<1.34.0-0" .Capabilities.KubeVersion.Version) (not (hasKey .Values.activator.settings "KUBERNETES_MIN_VERSION")) }}
- Kubernetes {{ .Capabilities.KubeVersion.Version }} is too old: dialect {{ .Values.dialect }} needs 1.34, as Knative does. activator.settings.KUBERNETES_MIN_VERSION allows an older one.
{{- end }}
{{- if and .Values.internalTls.enabled (not (include "activator.knative" .)) }}
- internalTls.enabled needs dialect: knative or both. Knative makes its certificates.
{{- end }}
{{- if and .Values.externalMetrics.enabled (not (include "activator.scaler" .)) }}
- externalMetrics.enabled needs the scaler: dialect services or both, and scaler.enabled.
{{- end }}
{{- if and .Values.admissionPolicy.enabled (not (include "activator.services" .)) }}
- admissionPolicy.enabled needs dialect: services or both. Only they read annotations of Services.
{{- end }}
{{- if and .Values.admissionPolicy.enabled (semverCompare "<1.30.0-0" .Capabilities.KubeVersion.Version) }}
- admissionPolicy.enabled needs Kubernetes 1.30, and this is {{ .Capabilities.KubeVersion.Version }}.
{{- end }}
{{- if and .Values.monitoring.podMonitor.enabled (not (include "activator.scaler" .)) }}
- monitoring.podMonitor.enabled needs the scaler: dialect services or both, and scaler.enabled.
{{- end }}
{{- if and .Values.externalMetrics.caBundle (not .Values.externalMetrics.enabled) }}
- externalMetrics.caBundle has no effect without externalMetrics.enabled.
{{- end }}
{{- with .Values.activator.autoscaling }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
- activator.autoscaling.minReplicas is above maxReplicas.
{{- end }}
{{- end }}
{{- end }}
