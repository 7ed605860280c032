{{/*
stand-in.pod renders the metadata and spec of a pod template from one workload, Job or CronJob of a shape.
(list scope item)
*/}}
{{- define "stand-in.pod" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $values := $scope.root.Values -}}
metadata:
  labels: {{- include "stand-in.labels" (list $scope (default $item.component $item.podComponent)) | nindent 4 }}
{{- with include "stand-in.pod-annotations" . | fromYaml }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end }}
spec:
  serviceAccountName: {{ $item.account }}
{{- with $item.restart }}
  restartPolicy: {{ . }}
{{- end }}
{{- if $item.host }}
  hostNetwork: true
  dnsPolicy: ClusterFirstWithHostNet
{{- if eq $item.host "all" }}
  hostPID: true
  hostIPC: true
{{- end }}
{{- end }}
{{- with $item.grace }}
{{- with (include "stand-in.at" (list $values (printf "pod.lifecycle.termination_grace_period.%s.timeout" .)) | fromJson).v }}
  terminationGracePeriodSeconds: {{ . }}
{{- end }}
{{- end }}
{{- with (include "stand-in.at" (list $values (printf "labels.%s" $item.labels)) | fromJson).v }}
  nodeSelector: { {{ .node_selector_key }}: {{ .node_selector_value | quote }} }
{{- end }}
{{- with (include "stand-in.at" (list $values (printf "pod.tolerations.%s" (default $scope.app $item.tolerations))) | fromJson).v }}
{{- if .enabled }}
  tolerations: {{- toYaml .tolerations | nindent 2 }}
{{- end }}
{{- end }}
{{- if $item.expressions }}
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions: {{ toJson $item.expressions }}
{{- else if $item.spread }}
  affinity: {{- include "stand-in.spread" . | nindent 4 }}
{{- end }}
  initContainers:
  - {{- include "stand-in.wait" (list $scope $item.waits) | nindent 4 }}
{{- range $name, $image := default dict $item.init }}
  - name: {{ $name }}
    image: {{ get $values.images.tags $image | quote }}
    imagePullPolicy: {{ $values.images.pull_policy }}
{{- end }}
  containers:
{{- range $container := $item.containers }}
  - name: {{ $container }}
    image: {{ get $values.images.tags (default $item.image (get (default dict $item.images) $container)) | quote }}
    imagePullPolicy: {{ $values.images.pull_policy }}
{{- with $item.ports }}
    ports:
{{- range . }}
    - containerPort: {{ . }}
{{- end }}
{{- end }}
{{- with include "stand-in.env" (list $scope $item $container) | trim }}
    env: {{- . | nindent 4 }}
{{- end }}
{{- if $values.pod.resources.enabled }}
{{- with (include "stand-in.at" (list $values (printf "pod.resources.%s" $item.resources)) | fromJson).v }}
    resources: {{- toYaml . | nindent 6 }}
{{- end }}
{{- end }}
{{- with (include "stand-in.at" (list $values (printf "pod.mounts.%s.%s.volumeMounts" $item.mounts $item.mounts)) | fromJson).v }}
    volumeMounts: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}
{{- with include "stand-in.volumes" . | fromYamlArray }}
  volumes: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Annotations with hashes of the configuration restart the pods when the configuration changes. `annotations.pod`
applies to the same workloads as in upstream. */}}
{{- define "stand-in.pod-annotations" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- if not $item.bare }}
{{ include "stand-in.uuid" $scope }}
{{- end }}
{{- $rolls := list }}
{{- range default list $item.rolls }}{{- $rolls = append $rolls (include "stand-in.as-flat" (dict "from" (include "stand-in.at" (list $scope.root.Values .) | fromJson))) }}{{- end }}
{{- if $item.hashes }}
configmap-bin-hash: {{ list $scope.binData $rolls | toJson | sha256sum }}
configmap-etc-hash: {{ toJson $scope.etcData | sha256sum }}
{{- end }}
{{- with $item.annotations }}
{{- $given := default dict (include "stand-in.at" (list $scope.root.Values "annotations.pod") | fromJson).v }}
{{- with (default $given.default (get $given .)) }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Upstream's anti-affinity: `pod.affinity.anti` of the component, or else of `default`. */}}
{{- define "stand-in.spread" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $anti := $scope.root.Values.pod.affinity.anti -}}
{{- $type := default $anti.type.default (get $anti.type $item.component) -}}
{{- $key := default $anti.topologyKey.default (get $anti.topologyKey $item.component) -}}
{{- $weight := default 10 (get (default dict $anti.weight) $item.component | default (default dict $anti.weight).default) -}}
{{- $match := list -}}
{{- range $label, $value := dict "release_group" (default $scope.root.Release.Name $scope.root.Values.release_group) "application" $scope.app "component" $item.component -}}
{{- $match = append $match (dict "key" $label "operator" "In" "values" (list $value)) -}}
{{- end -}}
{{- $term := dict "labelSelector" (dict "matchExpressions" $match) "topologyKey" $key -}}
{{- if eq $type "preferredDuringSchedulingIgnoredDuringExecution" -}}
{{- toYaml (dict "podAntiAffinity" (dict $type (list (dict "podAffinityTerm" $term "weight" (int $weight))))) -}}
{{- else -}}
{{- toYaml (dict "podAntiAffinity" (dict $type (list $term))) -}}
{{- end -}}
{{- end -}}

{{/*
stand-in.env renders the environment variables of a container: `env` {NAME: "secret key"}, `literals` {NAME: path in
values}, `admin` (a Secret with the variables of a Keystone user), `service` (such a Secret, for variables SERVICE_*),
and `environment` (complete lists of variables, by container). (list scope item container)
*/}}
{{- define "stand-in.env" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- range $name, $place := default dict $item.env }}
{{- $parts := splitList " " $place }}
- {name: {{ $name }}, valueFrom: {secretKeyRef: {name: {{ include "stand-in.secret-name" (list $scope (first $parts)) }}, key: {{ last $parts }}}}}
{{- end }}
{{- range $name, $value := default dict $item.literals }}
- {name: {{ $name }}, value: {{ toString $value | quote }}}
{{- end }}
{{- with $item.admin }}
{{- $secret := include "stand-in.secret-name" (list $scope .) }}
{{- range list "OS_AUTH_URL" "OS_REGION_NAME" "OS_PROJECT_NAME" "OS_USERNAME" "OS_PASSWORD" }}
- {name: {{ . }}, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}}
{{- end }}
{{- end }}
{{- with get (default dict $item.service) (index . 2) }}
{{- $secret := include "stand-in.secret-name" (list $scope .) }}
{{- range list "OS_REGION_NAME" "OS_USERNAME" "OS_PASSWORD" }}
- {name: SERVICE_{{ . }}, valueFrom: {secretKeyRef: {name: {{ $secret }}, key: {{ . }}}}}
{{- end }}
{{- end }}
{{- with get (default dict $item.environment) (index . 2) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* stand-in.volumes renders the volumes: scripts, configuration, Secrets, ConfigMaps, claims, the files of `snippets`
(Keystone users and `pod.etcSources`) or `sources` (only `pod.etcSources`), and the volumes that `pod.mounts` adds. The
volumes have upstream's names, because values may mount them. */}}
{{- define "stand-in.volumes" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $values := $scope.root.Values -}}
{{- if not $item.scriptless }}
- {name: {{ $scope.app }}-bin, configMap: {name: {{ default $scope.binName $item.binName }}, defaultMode: 365}}
{{- end }}
{{- if $item.etc }}
{{- if eq $scope.etcKind "Secret" }}
- {name: {{ default (printf "%s-etc" $scope.app) $item.etcVolume }}, secret: {secretName: {{ default $scope.etcName $item.etcName }}, defaultMode: 292}}
{{- else }}
- {name: {{ $scope.app }}-etc, configMap: {name: {{ $scope.etcName }}, defaultMode: 292}}
{{- end }}
{{- end }}
{{- range $secret := default list $item.secrets }}
{{- $name := include "stand-in.secret-name" (list $scope $secret) }}
- {name: {{ $name | replace "." "-" }}, secret: {secretName: {{ $name }}}}
{{- end }}
{{- range default list $item.configMaps }}
- {name: {{ . | replace "." "-" }}, configMap: {name: {{ . }}}}
{{- end }}
{{- range default list $item.claims }}
- {name: {{ . }}, persistentVolumeClaim: {claimName: {{ . }}}}
{{- end }}
{{- with default $item.sources $item.snippets }}
{{- $sources := list }}
{{- if and $item.snippets (default dict $scope.shape.secrets).sections (include "stand-in.switch" (list $scope.root "secret_ks_etc")) }}
{{- $sources = append $sources (dict "secret" (dict "name" (printf "%s-ks-etc" $scope.app))) }}
{{- end }}
{{- range default list (include "stand-in.at" (list $values (printf "pod.etcSources.%s" .)) | fromJson).v }}{{- $sources = append $sources . }}{{- end }}
{{- if $sources }}
- {name: {{ $scope.app }}-etc-snippets, projected: {sources: {{ toJson $sources }}}}
{{- end }}
{{- end }}
{{- with (include "stand-in.at" (list $values (printf "pod.mounts.%s.%s.volumes" $item.mounts $item.mounts)) | fromJson).v }}
{{ toYaml . }}
{{- end }}
{{- end -}}
