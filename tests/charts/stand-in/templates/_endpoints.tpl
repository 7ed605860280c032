{{/* Names and addresses from `endpoints`. As in upstream, `default` applies if the class has no value, and the
release's namespace if the endpoint has no `namespace`. */}}

{{/* (list scope type class) → the host without a namespace */}}
{{- define "stand-in.host-short" -}}
{{- $scope := index . 0 -}}
{{- $endpoint := get $scope.root.Values.endpoints (index . 1 | replace "-" "_") | default dict -}}
{{- $hosts := default dict $endpoint.hosts -}}
{{- $host := default $hosts.default (get $hosts (index . 2)) -}}
{{- kindIs "map" $host | ternary (get (kindIs "map" $host | ternary $host dict) "host") $host -}}
{{- end -}}

{{/* (list scope type) */}}
{{- define "stand-in.endpoint-namespace" -}}
{{- $scope := index . 0 -}}
{{- default $scope.root.Release.Namespace (get $scope.root.Values.endpoints (index . 1 | replace "-" "_") | default dict).namespace -}}
{{- end -}}

{{/* (list scope type class) → an IP address unchanged, an override, or host.namespace.svc.suffix */}}
{{- define "stand-in.host" -}}
{{- $scope := index . 0 -}}{{- $type := index . 1 -}}{{- $class := index . 2 -}}
{{- $short := include "stand-in.host-short" . -}}
{{- $overrides := default dict (get $scope.root.Values.endpoints ($type | replace "-" "_")).host_fqdn_override -}}
{{- $override := get $overrides $class -}}
{{- if kindIs "map" $override -}}{{- $override = get $override "host" -}}{{- end -}}
{{- $fallback := get $overrides "default" -}}
{{- if kindIs "map" $fallback -}}{{- $fallback = get $fallback "host" -}}{{- end -}}
{{- if regexMatch "^[0-9]+\\.[0-9]+\\.[0-9]+\\.[0-9]+$" $short -}}
{{- $short -}}
{{- else if or $override $fallback -}}
{{- default $fallback $override -}}
{{- else -}}
{{- printf "%s.%s.svc.%s" $short (include "stand-in.endpoint-namespace" (list $scope $type)) $scope.root.Values.endpoints.cluster_domain_suffix -}}
{{- end -}}
{{- end -}}

{{/* (list scope type class port) */}}
{{- define "stand-in.port" -}}
{{- $scope := index . 0 -}}
{{- $ports := (include "stand-in.at" (list (get $scope.root.Values.endpoints (index . 1 | replace "-" "_")) (printf "port.%s" (index . 3))) | fromJson).v | default dict -}}
{{- printf "%.0f" (float64 (default $ports.default (get $ports (index . 2)))) -}}
{{- end -}}

{{/* (list scope type class field): `scheme` and `path` are a string or a map of classes */}}
{{- define "stand-in.part" -}}
{{- $part := get (get (index . 0).root.Values.endpoints (index . 1 | replace "-" "_")) (index . 3) -}}
{{- if kindIs "map" $part -}}{{- $part = default $part.default (get $part (index . 2)) -}}{{- end -}}
{{- default "" $part -}}
{{- end -}}

{{/* (list scope type class port) → scheme://host[:port]path */}}
{{- define "stand-in.uri" -}}
{{- $scope := index . 0 -}}{{- $type := index . 1 -}}{{- $class := index . 2 -}}
{{- $scheme := include "stand-in.part" (list $scope $type $class "scheme") | default "http" -}}
{{- $port := include "stand-in.port" . -}}
{{- $usual := or (and (eq $scheme "http") (eq $port "80")) (and (eq $scheme "https") (eq $port "443")) -}}
{{- printf "%s://%s%s%s" $scheme (include "stand-in.host" (list $scope $type $class)) ($usual | ternary "" (printf ":%s" $port)) (include "stand-in.part" (list $scope $type $class "path")) -}}
{{- end -}}

{{/*
stand-in.uri-of renders scheme://user:password@host:port,…path. With `many`, the hosts are the pods of `statefulset`, as
in transport_url. Without a `statefulset`, or if the values override the host, there is only one host. (list scope type
class user port many)
*/}}
{{- define "stand-in.uri-of" -}}
{{- $scope := index . 0 -}}{{- $type := index . 1 -}}{{- $class := index . 2 -}}
{{- $endpoint := get $scope.root.Values.endpoints ($type | replace "-" "_") -}}
{{- $user := get $endpoint.auth (index . 3) -}}
{{- $port := include "stand-in.port" (list $scope $type $class (index . 4)) -}}
{{- $host := include "stand-in.host" (list $scope $type $class) -}}
{{- $hosts := list $host -}}
{{- $overrides := default dict $endpoint.host_fqdn_override -}}
{{- if and (index . 5) $endpoint.statefulset (not (or (get $overrides $class) (get $overrides "default"))) -}}
{{- $hosts = list -}}
{{- range $pod := until (int $endpoint.statefulset.replicas) -}}{{- $hosts = append $hosts (printf "%s-%d.%s" $endpoint.statefulset.name $pod $host) -}}{{- end -}}
{{- end -}}
{{- $places := list -}}
{{- range $hosts -}}{{- $places = append $places (printf "%s:%s@%s:%s" $user.username (urlquery $user.password) . $port) -}}{{- end -}}
{{- printf "%s://%s%s" (include "stand-in.part" (list $scope $type $class "scheme") | default "http") (join "," $places) (include "stand-in.part" (list $scope $type $class "path")) -}}
{{- end -}}
