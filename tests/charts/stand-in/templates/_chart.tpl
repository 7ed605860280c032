{{/*
stand-in.chart renders a whole chart from its shape.yaml; see ../../README.md for the fields. The shape is itself a
template, so that it can follow values. All templates get the same scope: root (helm's own scope), shape, app (the
application label), prefix (of Jobs' names) and conf (a copy of `conf` with the connections filled in, so that the hash
and the Secret see the same random value).
*/}}
{{- define "stand-in.chart" -}}
{{- $shape := tpl (.Files.Get "shape.yaml") . | fromYaml -}}
{{- if hasKey $shape "Error" -}}{{- fail (printf "shape.yaml of chart %s: %s" .Chart.Name $shape.Error) -}}{{- end -}}
{{- $scope := dict "root" . "shape" $shape "app" .Chart.Name "prefix" (default .Chart.Name $shape.prefix) "conf" (deepCopy (default dict .Values.conf)) -}}
{{- $workloads := list -}}
{{- range $shape.workloads -}}{{- if not .file -}}{{- $workloads = append $workloads . -}}{{- end -}}{{- end -}}
{{- $_ := set $shape "workloads" $workloads -}}
{{- include "stand-in.config" $scope -}}
{{- include "stand-in.secrets" $scope -}}
{{- include "stand-in.accounts" $scope -}}
{{- include "stand-in.services" $scope -}}
{{- include "stand-in.claims" $scope -}}
{{- include "stand-in.workloads" $scope -}}
{{- include "stand-in.jobs" $scope -}}
{{- include "stand-in.crons" $scope -}}
{{- range $extra := .Values.extraObjects }}
---
{{ tpl (kindIs "string" $extra | ternary $extra (toYaml $extra)) $ }}
{{- end }}
{{- end -}}

{{/* stand-in.file renders one workload with its account, for a workload with `file: true` in the shape. As in upstream,
the workload has a template of its own, which values can include again. (list root name) */}}
{{- define "stand-in.file" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- $shape := tpl ($root.Files.Get "shape.yaml") $root | fromYaml -}}
{{- range $workload := $shape.workloads -}}
{{- if eq $workload.name $name -}}
{{- $one := set (pick $shape "etc" "bin" "secrets") "workloads" (list $workload) -}}
{{- $scope := dict "root" $root "shape" $one "app" $root.Chart.Name "conf" (deepCopy $root.Values.conf) -}}
{{- $_ := include "stand-in.config" $scope -}}
{{- include "stand-in.accounts" $scope -}}
{{- include "stand-in.workloads" $scope -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* stand-in.at looks up the value at a dotted path. It renders {"v": …} as JSON, or {} if the path does not exist.
(list from path) */}}
{{- define "stand-in.at" -}}
{{- $found := dict "v" (index . 0) -}}
{{- range $part := splitList "." (index . 1) -}}
{{- $here := $found.v -}}
{{- $found = dict -}}
{{- if kindIs "map" $here -}}{{- if hasKey $here $part -}}{{- $found = dict "v" (get $here $part) -}}{{- end -}}{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* stand-in.switch renders "on", or nothing if `manifests.<name>` is false. Without a name, it renders "on". (list
root name) */}}
{{- define "stand-in.switch" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}
{{- if not $name -}}on{{- else if not (hasKey $root.Values.manifests $name) -}}on{{- else if get $root.Values.manifests $name -}}on{{- end -}}
{{- end -}}

{{/* stand-in.labels renders upstream's labels of objects, pods and selectors, and those in `pod.labels`. (list scope
component) */}}
{{- define "stand-in.labels" -}}
{{- $scope := index . 0 -}}{{- $component := index . 1 -}}
{{- $group := default $scope.root.Release.Name $scope.root.Values.release_group -}}
{{- $extra := default dict (get (default dict $scope.root.Values.pod) "labels") -}}
{{- $labels := dict "release_group" $group "application" $scope.app "component" $component -}}
{{- if or (not (hasKey $extra "include_app_kubernetes_io")) (get $extra "include_app_kubernetes_io") -}}
{{- $labels = merge $labels (dict "app.kubernetes.io/name" $scope.app "app.kubernetes.io/component" $component "app.kubernetes.io/instance" $group) -}}
{{- end -}}
{{- $labels = mergeOverwrite $labels (deepCopy (default dict (get $extra $component))) (deepCopy (default dict (get $extra "default"))) -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* stand-in.uuid renders the annotation with `release_uuid`, which restarts every pod when the value changes. */}}
{{- define "stand-in.uuid" -}}
openstackhelm.openstack.org/release_uuid: {{ default "" .root.Values.release_uuid | quote }}
{{- end -}}

{{/* stand-in.secret-name renders the name at a path below `secrets`, or the path itself if it does not exist. (list
scope path) */}}
{{- define "stand-in.secret-name" -}}
{{- $scope := index . 0 -}}{{- $path := index . 1 -}}
{{- $found := (include "stand-in.at" (list (default dict $scope.root.Values.secrets) $path) | fromJson).v -}}
{{- kindIs "string" $found | ternary $found $path -}}
{{- end -}}
