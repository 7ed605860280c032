{{/*
The Jobs of upstream's toolkit for every service, with their hook weights and 1000 retries (a broken Job shows as helm's
timeout, not as a failure). A shape lists its Jobs, and for each Job the differences from these defaults.
*/}}
{{- define "stand-in.toolkit" -}}
db-init: {weight: -5, image: db_init, containers: [{{ .app }}-db-init-0], env: {ROOT_DB_CONNECTION: "oslo_db.admin DB_CONNECTION"}, etc: true, etcVolume: db-init-conf}
db-sync: {weight: -4, image: {{ .app }}_db_sync, etc: true, etcVolume: db-sync-conf}
rabbit-init: {weight: -4, image: rabbit_init, containers: [rabbit-init], env: {RABBITMQ_ADMIN_CONNECTION: "oslo_messaging.admin RABBITMQ_CONNECTION", RABBITMQ_USER_CONNECTION: "oslo_messaging.{{ .app }} RABBITMQ_CONNECTION"}}
ks-service: {weight: -3, image: ks_service, admin: identity.admin}
ks-endpoints: {weight: -2, image: ks_endpoints, admin: identity.admin}
ks-user: {weight: -1, image: ks_user, admin: identity.admin}
bootstrap: {weight: 5, image: bootstrap, containers: [bootstrap], admin: identity.admin, etc: true, etcVolume: bootstrap-conf}
{{- end -}}

{{/* stand-in.jobs renders the Jobs: hooks after install and upgrade, hooks before deletion, and (with `hook: none`)
plain Jobs, which no upgrade can change. */}}
{{- define "stand-in.jobs" -}}
{{- $scope := . -}}
{{- $toolkit := include "stand-in.toolkit" . | fromYaml -}}
{{- range $short, $given := default dict .shape.jobs -}}
{{- $name := printf "%s-%s" $scope.prefix $short -}}
{{- $key := $short | replace "-" "_" -}}
{{- $item := dict
  "manifest" (printf "job_%s" $key) "component" $short "account" $name "waits" $key "labels" "job" "resources" (printf "jobs.%s" $key)
  "containers" (list $name) "restart" "OnFailure" "mounts" (printf "%s_%s" $scope.app $key) "hook" "post-install,post-upgrade"
-}}
{{- if hasKey $toolkit $short -}}{{- $_ := set $item "backoff" 1000 -}}{{- end -}}
{{- range $field, $value := default dict (get $toolkit $short | default dict) -}}{{- $_ := set $item $field $value -}}{{- end -}}
{{- range $field, $value := default dict $given -}}{{- $_ := set $item $field $value -}}{{- end -}}
{{- if include "stand-in.switch" (list $scope.root $item.manifest) -}}
{{- range $field, $value := include "stand-in.catalogue" (list $scope $short $item) | fromYaml -}}{{- $_ := set $item $field $value -}}{{- end -}}
{{- include "stand-in.job" (list $scope $name $item) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Renders the containers of the Jobs for Keystone's catalogue: one for each service type, three for each endpoint,
and one for each user. (list scope short item) */}}
{{- define "stand-in.catalogue" -}}
{{- $scope := index . 0 -}}{{- $short := index . 1 -}}{{- $item := index . 2 -}}
{{- $types := default list $scope.shape.types -}}
{{- $containers := list -}}{{- $environment := dict -}}
{{- if eq $short "ks-service" -}}
{{- range $types -}}{{- $containers = append $containers (printf "%s-ks-service-registration" .) -}}{{- end -}}
{{- else if eq $short "ks-endpoints" -}}
{{- range $type := $types -}}
{{- range $class := list "admin" "internal" "public" -}}
{{- $container := printf "%s-ks-endpoints-%s" $type $class -}}
{{- $containers = append $containers $container -}}
{{- $uri := include "stand-in.uri" (list $scope $type $class "api") -}}
{{- $_ := set $environment $container (list (dict "name" "OS_SVC_ENDPOINT" "value" $uri) (dict "name" "OS_SERVICE_TYPE" "value" $type)) -}}
{{- end -}}
{{- end -}}
{{- else if eq $short "ks-user" -}}
{{- range $container, $secret := default dict $item.service -}}{{- $containers = append $containers $container -}}{{- end -}}
{{- end -}}
{{- if $containers -}}{{- toYaml (dict "containers" $containers "environment" $environment) -}}{{- end -}}
{{- end -}}

{{- define "stand-in.job" -}}
{{- $scope := index . 0 -}}{{- $name := index . 1 -}}{{- $item := index . 2 }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}
  labels: {{- include "stand-in.labels" (list $scope $item.component) | nindent 4 }}
{{- with include "stand-in.job-annotations" (list $scope $item) | fromYaml }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
spec:
{{- with $item.backoff }}
  backoffLimit: {{ . }}
{{- end }}
  template: {{- include "stand-in.pod" (list $scope $item) | nindent 4 }}
{{- end -}}

{{/* This annotation is the last one, so that no value can replace the hook. */}}
{{- define "stand-in.job-annotations" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $given := default dict (include "stand-in.at" (list $scope.root.Values "annotations.job") | fromJson).v -}}
{{- $annotations := deepCopy (default dict (default $given.default (get $given ($item.account | replace "-" "_")))) -}}
{{- if $item.marked -}}{{- $annotations = merge (include "stand-in.uuid" $scope | fromYaml) $annotations -}}{{- end -}}
{{- if ne $item.hook "none" -}}{{- $_ := set $annotations "helm.sh/hook" $item.hook -}}{{- end -}}
{{- if hasKey $item "weight" -}}{{- with toString $item.weight -}}{{- $_ := set $annotations "helm.sh/hook-weight" . -}}{{- end -}}{{- end -}}
{{- with $item.policy -}}{{- $_ := set $annotations "helm.sh/hook-delete-policy" . -}}{{- end -}}
{{- toYaml $annotations -}}
{{- end -}}

{{- define "stand-in.crons" -}}
{{- $scope := . -}}
{{- range $short, $given := default dict .shape.crons -}}
{{- $name := printf "%s-%s" $scope.prefix $short -}}
{{- $key := $short | replace "-" "_" -}}
{{- $item := dict
  "component" $short "account" $name "waits" $key "labels" "job" "resources" (printf "jobs.%s" $key) "containers" (list $name)
  "restart" "OnFailure" "mounts" (printf "%s_%s" $scope.app $key) "etc" true "bare" true
-}}
{{- range $field, $value := $given -}}{{- $_ := set $item $field $value -}}{{- end -}}
{{- if include "stand-in.switch" (list $scope.root $item.manifest) }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $name }}
  annotations: {{- include "stand-in.uuid" $scope | nindent 4 }}
{{- if $item.labelled }}
  labels: {{- include "stand-in.labels" (list $scope $item.component) | nindent 4 }}
{{- end }}
spec:
  schedule: {{ (include "stand-in.at" (list $scope.root.Values (printf "jobs.%s.cron" $key)) | fromJson).v | quote }}
  concurrencyPolicy: Forbid
  jobTemplate:
    metadata:
      labels: {{- include "stand-in.labels" (list $scope $item.component) | nindent 8 }}
    spec:
      template: {{- include "stand-in.pod" (list $scope $item) | nindent 8 }}
{{- end -}}
{{- end -}}
{{- end -}}
