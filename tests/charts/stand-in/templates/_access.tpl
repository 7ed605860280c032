{{/*
stand-in.accounts renders a ServiceAccount for every pod, with a Role in each namespace in which the pod waits for
something (for the resources that kubernetes-entrypoint reads), and the additional Roles and ClusterRoles of a shape.
*/}}
{{- define "stand-in.accounts" -}}
{{- $scope := . -}}
{{- $toolkit := include "stand-in.toolkit" . | fromYaml -}}
{{- $seen := dict -}}
{{- range $workload := default list .shape.workloads -}}
{{- if include "stand-in.switch" (list $scope.root $workload.manifest) -}}
{{- $item := include "stand-in.defaults" (list $scope $workload) | fromJson -}}
{{- $_ := set $seen $item.account $item.waits -}}
{{- end -}}
{{- end -}}
{{- range $group, $prefix := dict "jobs" "job_" "crons" "" -}}
{{- range $short, $given := default dict (get $scope.shape $group) -}}
{{- $item := default dict $given -}}
{{- $key := $short | replace "-" "_" -}}
{{- if include "stand-in.switch" (list $scope.root (default (printf "%s%s" $prefix $key) $item.manifest)) -}}
{{- $_ := set $seen (default (printf "%s-%s" $scope.prefix $short) $item.account) (hasKey $item "waits" | ternary (get $item "waits") $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $account, $key := $seen -}}
{{- include "stand-in.account" (list $scope $account $key) -}}
{{- end -}}
{{- range $role := default list .shape.roles -}}
{{- if include "stand-in.switch" (list $scope.root $role.manifest) -}}
{{- include "stand-in.role" (list $scope $role) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Renders one ServiceAccount and its Roles. (list scope account key) */}}
{{- define "stand-in.account" -}}
{{- $scope := index . 0 -}}{{- $account := index . 1 -}}
{{- $needs := include "stand-in.needs" (list $scope (index . 2)) | fromJson -}}
{{- $home := $scope.root.Release.Namespace -}}
{{- $places := dict -}}
{{- range $service := default list $needs.services -}}
{{- $namespace := include "stand-in.endpoint-namespace" (list $scope $service.service) -}}
{{- $_ := set $places $namespace (concat (default list (get $places $namespace)) (list "services" "endpoints" "endpointslices") | uniq) -}}
{{- end -}}
{{- range $kind, $resources := dict "jobs" (list "jobs" "pods") "daemonset" (list "daemonsets" "pods") "pod" (list "pods") -}}
{{- if get $needs $kind -}}{{- $_ := set $places $home (concat (default list (get $places $home)) $resources | uniq) -}}{{- end -}}
{{- end }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $account }}
  namespace: {{ $home }}
{{- range $namespace, $resources := $places -}}
{{- $rule := dict "apiGroups" (list "" "extensions" "batch" "apps" "discovery.k8s.io") "verbs" (list "get" "list") "resources" $resources -}}
{{- $name := printf "%s-%s-%s" $scope.root.Release.Name $home ($account | replace "_" "-") -}}
{{- include "stand-in.role" (list $scope (dict "name" $name "namespace" $namespace "rules" (list $rule) "accounts" (list $account))) -}}
{{- end -}}
{{- end -}}

{{/* Renders a Role and its binding; with `cluster: true`, a ClusterRole and its binding. (list scope role) */}}
{{- define "stand-in.role" -}}
{{- $scope := index . 0 -}}{{- $role := index . 1 -}}
{{- $home := $scope.root.Release.Namespace -}}
{{- $scopeName := empty $role.cluster | ternary "" "Cluster" -}}
{{- $namespace := empty $role.cluster | ternary (default $home $role.namespace) "" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scopeName }}Role
metadata:
  name: {{ $role.name }}
{{- with $namespace }}
  namespace: {{ . }}
{{- end }}
rules: {{- toYaml $role.rules | nindent 0 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $scopeName }}RoleBinding
metadata:
  name: {{ default $role.name $role.binding }}
{{- with $namespace }}
  namespace: {{ . }}
{{- end }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $scopeName }}Role, name: {{ $role.name }}}
subjects:
{{- range $role.accounts }}
- {kind: ServiceAccount, name: {{ . }}, namespace: {{ $home }}}
{{- end }}
{{- end -}}
