{{/*
stand-in.needs renders the dependencies of a component, as JSON: `dependencies.static.<key>`, and
`dependencies.dynamic.targeted.<backend>.<key>` for every backend of `network.backend`, without
the Jobs that `manifests.job_*` disables. (list scope key)
*/}}
{{- define "stand-in.needs" -}}
{{- $scope := index . 0 -}}{{- $key := index . 1 -}}
{{- $dependencies := default dict $scope.root.Values.dependencies -}}
{{- $needs := dict -}}
{{- if $key -}}
{{- $needs = deepCopy (default dict (include "stand-in.at" (list $dependencies (printf "static.%s" $key)) | fromJson).v) -}}
{{- $backends := default list (include "stand-in.at" (list $scope.root.Values "network.backend") | fromJson).v -}}
{{- range $backend := kindIs "slice" $backends | ternary $backends list -}}
{{- $more := default dict (include "stand-in.at" (list $dependencies (printf "dynamic.targeted.%s.%s" $backend $key)) | fromJson).v -}}
{{- range $kind, $entries := $more -}}
{{- $have := get $needs $kind -}}
{{- if and (kindIs "slice" $have) (kindIs "slice" $entries) -}}{{- $entries = concat $have $entries | uniq -}}{{- end -}}
{{- $_ := set $needs $kind $entries -}}
{{- end -}}
{{- end -}}
{{- $jobs := list -}}
{{- range $job := default list $needs.jobs -}}
{{- $switch := kindIs "string" $job | ternary (printf "job_%s" (join "_" (rest (splitList "-" (toString $job))))) "" -}}
{{- if include "stand-in.switch" (list $scope.root $switch) -}}{{- $jobs = append $jobs $job -}}{{- end -}}
{{- end -}}
{{- $_ := set $needs "jobs" $jobs -}}
{{- end -}}
{{- toJson $needs -}}
{{- end -}}

{{/* stand-in.wait is the init container that blocks a pod until its dependencies are available. (list scope key) */}}
{{- define "stand-in.wait" -}}
{{- $scope := index . 0 -}}
{{- $needs := include "stand-in.needs" . | fromJson -}}
{{- $services := list -}}
{{- range $service := default list $needs.services -}}
{{- $host := include "stand-in.host-short" (list $scope $service.service $service.endpoint) -}}
{{- $services = append $services (printf "%s:%s" (include "stand-in.endpoint-namespace" (list $scope $service.service)) $host) -}}
{{- end -}}
{{- $jobs := default list $needs.jobs -}}
name: init
image: {{ $scope.root.Values.images.tags.dep_check | quote }}
imagePullPolicy: {{ $scope.root.Values.images.pull_policy }}
command: [kubernetes-entrypoint]
env:
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
- {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
- {name: DEPENDENCY_SERVICE, value: {{ join "," $services | quote }}}
{{- if and $jobs (kindIs "string" (first $jobs)) }}
- {name: DEPENDENCY_JOBS, value: {{ join "," $jobs | quote }}}
{{- else if $jobs }}
- {name: DEPENDENCY_JOBS_JSON, value: {{ toJson $jobs | quote }}}
{{- end }}
- {name: DEPENDENCY_DAEMONSET, value: {{ join "," (default list $needs.daemonset) | quote }}}
- {name: DEPENDENCY_CONTAINER, value: {{ join "," (default list $needs.container) | quote }}}
- {name: DEPENDENCY_POD_JSON, value: {{ empty $needs.pod | ternary "" (toJson $needs.pod) | quote }}}
- {name: DEPENDENCY_CUSTOM_RESOURCE, value: {{ empty $needs.custom_resources | ternary "" (toJson $needs.custom_resources) | quote }}}
{{- end -}}
