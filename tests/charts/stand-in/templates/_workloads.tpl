{{/*
stand-in.workloads renders Deployments, StatefulSets, DaemonSets and their disruption budgets. Values for some nodes
split a DaemonSet with `override` (_overrides.tpl); its configuration is in a separate object that has the DaemonSet's
name.
*/}}
{{- define "stand-in.workloads" -}}
{{- $scope := . -}}
{{- range $workload := default list .shape.workloads -}}
{{- if include "stand-in.switch" (list $scope.root $workload.manifest) -}}
{{- $item := include "stand-in.defaults" (list $scope $workload) | fromJson -}}
{{- if $item.override -}}
{{- include "stand-in.split" (list $scope $item) -}}
{{- else -}}
{{- include "stand-in.workload" (list $scope $item) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $budget := default list .shape.budgets -}}
{{- if include "stand-in.switch" (list $scope.root $budget.manifest) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $budget.name }}
spec:
  minAvailable: {{ (include "stand-in.at" (list $scope.root.Values (printf "pod.lifecycle.disruption_budget.%s.min_available" $budget.key)) | fromJson).v }}
  selector:
    matchLabels: {{- include "stand-in.labels" (list $scope $budget.component) | nindent 6 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* stand-in.defaults adds the defaults of a workload, as JSON. (list scope workload) */}}
{{- define "stand-in.defaults" -}}
{{- $scope := index . 0 -}}{{- $given := index . 1 -}}
{{- $key := default $given.component $given.key | replace "-" "_" -}}
{{- $item := dict
  "account" $given.name "waits" $key "labels" $key "resources" $key "mounts" $key "replicas" $key
  "containers" (list (default $given.name $given.container)) "hashes" true "etc" true
-}}
{{- range $field, $value := $given -}}{{- $_ := set $item $field $value -}}{{- end -}}
{{- toJson $item -}}
{{- end -}}

{{- define "stand-in.workload" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $pod := $scope.root.Values.pod -}}
{{- $labels := include "stand-in.labels" (list $scope $item.component) }}
---
apiVersion: apps/v1
kind: {{ $item.kind }}
metadata:
  name: {{ $item.name }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "stand-in.uuid" $scope | nindent 4 }}
spec:
{{- if ne $item.kind "DaemonSet" }}
  replicas: {{ int (get $pod.replicas $item.replicas) }}
{{- end }}
  selector:
    matchLabels: {{- $labels | nindent 6 }}
{{- if eq $item.kind "Deployment" }}
{{- with (include "stand-in.at" (list $pod "lifecycle.upgrades.deployments") | fromJson).v }}
  revisionHistoryLimit: {{ .revision_history }}
  strategy:
    type: {{ .pod_replacement_strategy }}
{{- if eq .pod_replacement_strategy "RollingUpdate" }}
    rollingUpdate: {maxUnavailable: {{ .rolling_update.max_unavailable }}, maxSurge: {{ .rolling_update.max_surge }}}
{{- end }}
{{- end }}
{{- else if eq $item.kind "DaemonSet" }}
{{- with (include "stand-in.at" (list $pod (printf "lifecycle.upgrades.daemonsets.%s" $item.upgrades)) | fromJson).v }}
{{- if .enabled }}
  minReadySeconds: {{ .min_ready_seconds }}
  updateStrategy:
    type: {{ $pod.lifecycle.upgrades.daemonsets.pod_replacement_strategy }}
{{- if eq $pod.lifecycle.upgrades.daemonsets.pod_replacement_strategy "RollingUpdate" }}
    rollingUpdate: {maxUnavailable: {{ .max_unavailable }}}
{{- end }}
{{- end }}
{{- end }}
{{- else }}
  serviceName: {{ $item.serviceName }}
  podManagementPolicy: Parallel
{{- with $item.claim }}
{{- $volume := default dict (include "stand-in.at" (list $scope.root.Values .volume) | fromJson).v }}
{{- if $volume.enabled }}
  volumeClaimTemplates:
  - metadata: {name: {{ .name }}}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: {{ $volume.size }}}}
      storageClassName: {{ $volume.class_name }}
{{- end }}
{{- end }}
{{- end }}
  template: {{- include "stand-in.pod" . | nindent 4 }}
{{- end -}}
