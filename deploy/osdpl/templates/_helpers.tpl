{{- define "osdpl.fullname" -}}
{{- if contains "osdpl" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-osdpl" .Release.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "osdpl.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "osdpl.fullname" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "osdpl.webhookSecret" -}}
{{ .Values.webhook.certificate.secretName | default (printf "%s-webhook-tls" (include "osdpl.fullname" .)) }}
{{- end }}

{{- define "osdpl.selector" -}}
app.kubernetes.io/name: osdpl
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "osdpl.labels" -}}
{{ include "osdpl.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "osdpl.subjects" -}}
- kind: ServiceAccount
  name: {{ include "osdpl.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
