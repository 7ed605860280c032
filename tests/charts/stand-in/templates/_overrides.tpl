{{/*
stand-in.split renders one DaemonSet for each entry of the values for some nodes, with the entry's configuration, and
the default DaemonSet for all other nodes. Names and node affinity are those of upstream. (list scope item)

With `override: conf`, the entries are in `conf.overrides.<chart>_<daemonset>`: they select hosts or labels, the last
entry for a label wins, and the default DaemonSet has another name. With `override: root`, the entries are in
`overrides.<chart>_<daemonset>.labels`: no pod runs on a node that several entries select.
*/}}
{{- define "stand-in.split" -}}
{{- $scope := index . 0 -}}{{- $item := index . 1 -}}
{{- $chart := $scope.root.Chart.Name -}}
{{- $whole := trimSuffix "-default" $item.name -}}
{{- $key := printf "%s_%s" $chart (trimPrefix (printf "%s-" $chart) $whole) -}}
{{- $in := eq $item.override "conf" | ternary $scope.root.Values.conf $scope.root.Values -}}
{{- $given := default dict (get (default dict (get $in "overrides")) $key) -}}
{{- $entries := list -}}{{- $none := list -}}
{{- if eq $item.override "conf" -}}
{{- $hosts := list -}}
{{- range default list $given.hosts -}}
{{- $hosts = append $hosts (dict "key" "kubernetes.io/hostname" "operator" "NotIn" "values" (list .name)) -}}
{{- $only := dict "key" "kubernetes.io/hostname" "operator" "In" "values" (list .name) -}}
{{- $entries = append $entries (dict "name" (trunc 20 .name) "expressions" (list $only) "conf" .conf) -}}
{{- end -}}
{{- $labels := list -}}
{{- range default list $given.labels -}}{{- $labels = append $labels (merge (dict "operator" "NotIn") .label) -}}{{- end -}}
{{- range $at, $entry := default list $given.labels -}}
{{- $expressions := concat (list (merge (dict "operator" "In") $entry.label)) (slice $labels (int (add1 $at))) $hosts -}}
{{- $entries = append $entries (dict "name" $entry.label.key "expressions" $expressions "conf" $entry.conf) -}}
{{- end -}}
{{- $none = concat $hosts $labels -}}
{{- else -}}
{{- range $of, $entry := default dict $given.labels -}}
{{- $parts := splitList "::" $of -}}
{{- $expressions := list (dict "key" (first $parts) "operator" "In" "values" (rest $parts)) -}}
{{- range $other, $_ := omit $given.labels $of -}}
{{- $expressions = append $expressions (dict "key" (first (splitList "::" $other)) "operator" "NotIn" "values" (rest (splitList "::" $other))) -}}
{{- end -}}
{{- $entries = append $entries (dict "expressions" $expressions "values" $entry.values) -}}
{{- $none = append $none (dict "key" (first $parts) "operator" "NotIn" "values" (rest $parts)) -}}
{{- end -}}
{{- end -}}
{{- range append $entries (dict "name" "default" "expressions" $none) -}}
{{- include "stand-in.split-part" (list $scope $item . $whole) -}}
{{- end -}}
{{- end -}}

{{/* stand-in.split-part: the DaemonSet of one entry, and its configuration. (list scope item entry whole) */}}
{{- define "stand-in.split-part" -}}
{{- $scope := index . 0 -}}{{- $entry := index . 2 -}}{{- $whole := index . 3 -}}
{{- $item := merge (dict "expressions" $entry.expressions) (index . 1) -}}
{{- $hash := $entry.expressions | quote | sha256sum -}}
{{- $own := dict -}}
{{- range $field, $value := $scope -}}{{- $_ := set $own $field $value -}}{{- end -}}
{{- if eq $item.override "conf" -}}
{{- $name := printf "%s-%s" $whole $entry.name | lower | replace "_" "-" -}}
{{- if $entry.expressions -}}{{- $name = printf "%s-%s" $name (trunc 8 $hash) -}}{{- end -}}
{{- $_ := set $item "name" $name -}}{{- $_ := set $item "etcName" $name -}}
{{- $_ := set $own "conf" (mergeOverwrite (deepCopy $scope.conf) (deepCopy (default dict $entry.conf))) -}}
{{- else -}}
{{- $name := hasKey $entry "values" | ternary (printf "%s-%s" $whole (trunc 16 $hash)) $item.name -}}
{{- $_ := set $item "name" $name -}}
{{- $_ := set $item "etcName" (printf "%s-etc" $name) -}}{{- $_ := set $item "binName" (printf "%s-bin" $name) -}}
{{- with $entry.values -}}
{{- $values := mergeOverwrite (deepCopy $scope.root.Values) (deepCopy .) -}}
{{- $_ := set $own "root" (dict "Values" $values "Chart" $scope.root.Chart "Release" $scope.root.Release "Template" $scope.root.Template) -}}
{{- $_ := set $own "conf" (mergeOverwrite (deepCopy $scope.conf) (deepCopy (default dict .conf))) -}}
{{- end -}}
{{- end -}}
{{- include "stand-in.data-of" $own -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $item.etcName "data" $own.etcData) -}}
{{- with $item.binName -}}{{- include "stand-in.data" (dict "kind" "ConfigMap" "name" . "data" $own.binData) -}}{{- end -}}
{{- include "stand-in.workload" (list $own $item) -}}
{{- end -}}
