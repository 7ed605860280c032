{{/*
stand-in.config renders the config Secret (`<chart>-etc`) and the scripts' ConfigMap (`<chart>-bin`)
and stores their data in the scope, from which pods compute their hashes.
*/}}
{{- define "stand-in.config" -}}
{{- $scope := . -}}
{{- $etc := default dict .shape.etc -}}
{{- range $path, $source := default dict $etc.fill -}}
{{- include "stand-in.fill" (list $scope $path $source) -}}
{{- end -}}
{{- include "stand-in.data-of" . -}}
{{- if and $etc.files (include "stand-in.switch" (list .root "configmap_etc")) -}}
{{- include "stand-in.data" (dict "kind" .etcKind "name" .etcName "data" .etcData) -}}
{{- end -}}
{{- if include "stand-in.switch" (list .root "configmap_bin") -}}
{{- include "stand-in.data" (dict "kind" "ConfigMap" "name" .binName "data" .binData) -}}
{{- end -}}
{{- end -}}

{{/* stand-in.data-of stores the result of its `conf` and values in the scope. */}}
{{- define "stand-in.data-of" -}}
{{- $scope := . -}}
{{- $etc := default dict .shape.etc -}}
{{- $data := dict -}}
{{- range $file, $how := default dict $etc.files -}}
{{- $parts := splitList " " $how -}}
{{- $from := (include "stand-in.at" (list $scope.conf (index $parts 1)) | fromJson).v -}}
{{- range slice $parts 2 -}}{{- $from = omit $from . -}}{{- end -}}
{{- $_ := set $data $file (include (printf "stand-in.as-%s" (first $parts)) (dict "root" $scope.root "from" $from)) -}}
{{- end -}}
{{- $_ := set . "etcName" (default (printf "%s-etc" .root.Chart.Name) $etc.name) -}}
{{- $_ := set . "etcData" $data -}}
{{- $_ := set . "etcKind" (default "Secret" $etc.kind) -}}
{{- $bin := dict "stand-in.sh" "exec true" -}}
{{- range $file, $path := default dict (default dict .shape.bin).values -}}
{{- with (include "stand-in.at" (list $scope.root.Values $path) | fromJson).v -}}{{- $_ := set $bin $file (include "stand-in.as-flat" (dict "from" (dict "value" .))) -}}{{- end -}}
{{- end -}}
{{- $_ := set . "binName" (default (printf "%s-bin" .root.Chart.Name) (default dict .shape.bin).name) -}}
{{- $_ := set . "binData" $bin -}}
{{- end -}}

{{/* stand-in.data renders one Secret or ConfigMap. (dict kind name data annotations) */}}
{{- define "stand-in.data" }}
---
apiVersion: v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
{{- with .annotations }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
{{- if eq .kind "Secret" }}
type: Opaque
{{- end }}
data: {{- if not .data }} {}{{ end }}
{{- $secret := eq .kind "Secret" }}
{{- range $key, $value := .data }}
  {{ $key }}: {{ $secret | ternary (b64enc $value) (quote $value) }}
{{- end }}
{{- end -}}

{{/*
stand-in.fill sets one empty path under `conf` to upstream's value. A connection that is null stays null:
upstream then reads the connection from a mounted file. (list scope "path.in.conf" "what …")
*/}}
{{- define "stand-in.fill" -}}
{{- $scope := index . 0 -}}
{{- $parts := splitList "." (index . 1) -}}
{{- $what := splitList " " (index . 2) -}}
{{- $kind := first $what -}}
{{- $key := last $parts -}}
{{- $now := include "stand-in.at" (list $scope.conf (index . 1)) | fromJson -}}
{{- $wanted := empty $now.v -}}
{{- if and (eq $kind "database") (kindIs "invalid" $now.v) -}}{{- $wanted = false -}}{{- end -}}
{{- if $wanted -}}
{{- $value := "" -}}
{{- if eq $kind "database" -}}{{- $value = include "stand-in.uri-of" (list $scope (index $what 1) "internal" (index $what 2) "mysql" false) -}}
{{- else if eq $kind "transport" -}}{{- $value = include "stand-in.uri-of" (list $scope "oslo_messaging" "internal" (index $what 1) "amqp" true) -}}
{{- else if eq $kind "cache" -}}{{- $value = printf "%s:%s" (include "stand-in.host" (list $scope "oslo_cache" "internal")) (include "stand-in.port" (list $scope "oslo_cache" "internal" "memcache")) -}}
{{- else if eq $kind "cache-key" -}}{{- $value = default (randAlphaNum 64) $scope.root.Values.endpoints.oslo_cache.auth.memcache_secret_key -}}
{{- else if eq $kind "uri" -}}{{- $value = include "stand-in.uri" (list $scope (index $what 1) (index $what 2) (index $what 3)) -}}
{{- else if eq $kind "root" -}}{{- $value = trimSuffix (include "stand-in.part" (list $scope (index $what 1) (index $what 2) "path")) (include "stand-in.uri" (list $scope (index $what 1) (index $what 2) (index $what 3))) -}}
{{- else if eq $kind "scheme" -}}{{- $value = include "stand-in.part" (list $scope (index $what 1) (index $what 2) "scheme") | default "http" -}}
{{- else if eq $kind "port" -}}{{- $value = include "stand-in.port" (list $scope (index $what 1) (index $what 2) (index $what 3)) -}}
{{- else if eq $kind "host" -}}{{- $value = include "stand-in.host" (list $scope (index $what 1) (index $what 2)) -}}
{{- else if eq $kind "value" -}}{{- $value = (include "stand-in.at" (list $scope.root.Values (index $what 1)) | fromJson).v -}}
{{- else -}}{{- $value = join " " (rest $what) -}}
{{- end -}}
{{- $node := $scope.conf -}}
{{- range $part := initial $parts -}}
{{- if not (kindIs "map" (get $node $part)) -}}{{- $_ := set $node $part dict -}}{{- end -}}
{{- $node = get $node $part -}}
{{- end -}}
{{- $_ := set $node $key $value -}}
{{- end -}}
{{- end -}}

{{/* Renders a file for oslo.config, with sections of keys. It omits keys whose value is null, joins lists with commas,
and reads {type: multistring|csv, values} as upstream does. */}}
{{- define "stand-in.as-oslo" -}}
{{- range $section, $keys := .from -}}
{{- if kindIs "map" $keys -}}
{{- printf "[%s]\n" $section -}}
{{- range $key, $value := $keys -}}
{{- if kindIs "slice" $value -}}{{- printf "%s = %s\n" $key (join "," $value) -}}
{{- else if and (kindIs "map" $value) (eq (toString $value.type) "multistring") -}}
{{- range $one := $value.values -}}{{- printf "%s = %v\n" $key $one -}}{{- end -}}
{{- else if kindIs "map" $value -}}
{{- if eq (toString $value.type) "csv" -}}{{- printf "%s = %s\n" $key (join "," $value.values) -}}{{- end -}}
{{- else if not (kindIs "invalid" $value) -}}{{- printf "%s = %v\n" $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Renders rabbitmq.conf, with the names of nested keys joined by dots; for libvirt's files, also with strings in
quotes. It omits nulls, because helm 3 keeps a chart's own nulls and helm 4 drops them. */}}
{{- define "stand-in.as-flat" -}}
{{- $root := .root -}}{{- $prefix := default "" .prefix -}}{{- $form := default "%s" .form -}}
{{- range $key, $value := .from -}}
{{- if kindIs "map" $value -}}{{- include "stand-in.as-flat" (dict "root" $root "from" $value "form" $form "prefix" (printf "%s%s." $prefix $key)) -}}
{{- else if not (kindIs "invalid" $value) -}}{{- printf "%s%s = %s\n" $prefix $key (kindIs "string" $value | ternary (printf $form $value) (toString $value)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- define "stand-in.as-quoted" -}}{{- include "stand-in.as-flat" (dict "root" .root "from" .from "form" "%q") -}}{{- end -}}

{{/* Renders pdns.conf, whose keys contain dashes. */}}
{{- define "stand-in.as-dashed" -}}
{{- range $key, $value := .from }}
{{ $key | replace "_" "-" }} = {{ $value }}
{{- end }}
{{- end -}}

{{- define "stand-in.as-yaml" -}}{{- toYaml .from -}}{{- end -}}
{{- define "stand-in.as-text" -}}{{- tpl (toString .from) .root -}}{{- end -}}
