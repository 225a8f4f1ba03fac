{{/* Not empty if the activators replace Knative's. */}}
{{- define "activator.knative" -}}
{{- if has .Values.dialect (list "knative" "both") }}yes{{ end }}
{{- end }}

{{/* Not empty if the activators serve annotated Services. */}}
{{- define "activator.services" -}}
{{- if has .Values.dialect (list "services" "both") }}yes{{ end }}
{{- end }}

{{/* Not empty if the scaler is installed. */}}
{{- define "activator.scaler" -}}
{{- if and (include "activator.services" .) .Values.scaler.enabled }}yes{{ end }}
{{- end }}

{{/* Labels of the overlay, of objects and pods. Beside Knative they are those of its release. */}}
{{- define "activator.podLabels" -}}
{{- if include "activator.knative" . -}}
app.kubernetes.io/name: knative-serving
app.kubernetes.io/component: activator
{{- else -}}
app.kubernetes.io/name: activator
{{- end }}
{{- end }}

{{/*
Metadata of an object. Takes a dict:
  top: the chart's own context; name: of the object; cluster: whether it has no namespace.
  labels, annotations: more of them, optional.
  plain: whether it lacks the labels of the overlay, as the objects of manifests/monitoring do.
  kept: whether Knative's release also has the object. `helm uninstall` then keeps it.
*/}}
{{- define "activator.metadata" -}}
{{- $chart := dict "app.kubernetes.io/managed-by" .top.Release.Service }}
{{- $_ := set $chart "helm.sh/chart" (printf "%s-%s" .top.Chart.Name .top.Chart.Version | replace "+" "_") }}
{{- $labels := merge (dict) (.labels | default dict) .top.Values.commonLabels $chart }}
{{- if not .plain }}
{{- $labels = merge (include "activator.podLabels" .top | fromYaml) $labels }}
{{- end }}
{{- $annotations := merge (dict) (.annotations | default dict) }}
{{- if and .kept (include "activator.knative" .top) .top.Values.knative.keepOnUninstall }}
{{- $_ := set $annotations "helm.sh/resource-policy" "keep" }}
{{- end -}}
name: {{ .name }}
{{- if not .cluster }}
namespace: {{ .top.Release.Namespace }}
{{- end }}
labels:
  {{- toYaml $labels | nindent 2 }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The image of both programs. */}}
{{- define "activator.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* A setting as text. Helm reads numbers of a file as floats: 1000000 would become 1e+06. */}}
{{- define "activator.text" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* Environment variables by name. */}}
{{- define "activator.settings" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ include "activator.text" $value | quote }}
{{- end }}
{{- end }}

{{/* The first and the last port of takeovers and fronts, as the scaler's setting has them. */}}
{{- define "activator.takeoverPorts" -}}
{{ dig "ACTIVATOR_TAKEOVER_PORTS" "10000-10999" .Values.scaler.settings }}
{{- end }}
