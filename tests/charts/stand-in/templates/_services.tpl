{{/* stand-in.services renders a Service for each endpoint of the shape, with the endpoint's host name and ports. */}}
{{- define "stand-in.services" -}}
{{- $scope := . -}}
{{- range $service := default list .shape.services -}}
{{- if include "stand-in.switch" (list $scope.root $service.manifest) -}}
{{- $class := default "internal" $service.class }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "stand-in.host-short" (list $scope $service.endpoint $class) }}
{{- if $service.labelled }}
  labels: {{- include "stand-in.labels" (list $scope $service.component) | nindent 4 }}
{{- end }}
spec:
{{- if $service.headless }}
  clusterIP: None
{{- end }}
{{- if hasKey $service "unready" }}
  publishNotReadyAddresses: {{ $service.unready }}
{{- end }}
  ports:
{{- range $name, $given := $service.ports }}
{{- $port := kindIs "map" $given | ternary (get (kindIs "map" $given | ternary $given dict) "port") $given }}
  - name: {{ $name }}
    port: {{ kindIs "string" $port | ternary (include "stand-in.port" (list $scope $service.endpoint $class (toString $port))) $port }}
{{- if kindIs "map" $given }}
    protocol: {{ $given.protocol }}
{{- end }}
{{- end }}
  selector: {{- include "stand-in.labels" (list $scope $service.component) | nindent 4 }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* stand-in.claims renders PersistentVolumeClaims. With `keep`, helm keeps them when it uninstalls the release. */}}
{{- define "stand-in.claims" -}}
{{- $values := .root.Values -}}
{{- range $claim := default list .shape.claims }}
{{- $volume := $claim.asks -}}
{{- with $claim.volume -}}{{- $volume = (include "stand-in.at" (list $values .) | fromJson).v -}}{{- end }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ $claim.name }}
{{- if $claim.keep }}
  annotations: {"helm.sh/resource-policy": keep}
{{- end }}
spec:
  accessModes: {{ toJson $volume.accessModes }}
  resources: {requests: {storage: {{ $volume.size }}}}
  storageClassName: {{ $volume.class_name }}
{{- end -}}
{{- end -}}
