{{/* stand-in.secrets renders Secrets with credentials. The values `secrets.*` contain the names of the Secrets. */}}
{{- define "stand-in.secrets" -}}
{{- $scope := . -}}
{{- $secrets := default dict .shape.secrets -}}
{{- if and $secrets.openrc (include "stand-in.switch" (list .root "secret_keystone")) -}}
{{- range $user, $name := .root.Values.secrets.identity -}}
{{- if hasKey $scope.root.Values.endpoints.identity.auth $user -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $name "data" (include "stand-in.openrc" (list $scope $user) | fromJson)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $database := default list $secrets.databases -}}
{{- if include "stand-in.switch" (list $scope.root (default "secret_db" $database.manifest)) -}}
{{- range $user := $database.users -}}
{{- $name := get (get $scope.root.Values.secrets $database.endpoint) $user -}}
{{- $uri := include "stand-in.uri-of" (list $scope $database.endpoint "internal" $user "mysql" false) -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $name "data" (dict "DB_CONNECTION" $uri)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $secrets.messaging (include "stand-in.switch" (list .root "secret_rabbitmq")) -}}
{{- range $user, $name := .root.Values.secrets.oslo_messaging -}}
{{- if kindIs "string" $name -}}
{{- $uri := include "stand-in.uri-of" (list $scope "oslo_messaging" "internal" $user "http" false) -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $name "data" (dict "RABBITMQ_CONNECTION" $uri)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $secrets.sections (include "stand-in.switch" (list .root "secret_ks_etc")) -}}
{{- $data := dict -}}
{{- range $user, $section := $secrets.sections -}}
{{- $auth := get $scope.root.Values.endpoints.identity.auth $user -}}
{{- $login := pick $auth "region_name" "project_name" "project_domain_name" "user_domain_name" "username" "password" -}}
{{- $_ := set $data (printf "%s_%s.conf" $scope.app $section) (include "stand-in.as-oslo" (dict "from" (dict $section $login))) -}}
{{- end -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" (printf "%s-ks-etc" .app) "data" $data "annotations" (include "stand-in.uuid" . | fromYaml)) -}}
{{- end -}}
{{- range $secret := default list $secrets.plain -}}
{{- if include "stand-in.switch" (list $scope.root $secret.manifest) -}}
{{- $data := dict -}}
{{- range $key, $text := default dict $secret.text -}}{{- $_ := set $data $key $text -}}{{- end -}}
{{- range $key, $path := default dict $secret.data -}}{{- $_ := set $data $key (toString (include "stand-in.at" (list $scope.root.Values $path) | fromJson).v) -}}{{- end -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $secret.name "data" $data) -}}
{{- end -}}
{{- end -}}
{{/* Jobs write keys into these Secrets. So the chart creates them empty, before all other objects, and never deletes
them. */}}
{{- range $name := default list $secrets.keys -}}
{{- if include "stand-in.switch" (list $scope.root (printf "secret_%s" (trimPrefix (printf "%s-" $scope.app) $name | replace "-" "_"))) -}}
{{- $annotations := dict "helm.sh/hook" "pre-install" "helm.sh/hook-delete-policy" "hook-failed" "helm.sh/resource-policy" "keep" -}}
{{- include "stand-in.data" (dict "kind" "Secret" "name" $name "annotations" $annotations) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* stand-in.openrc renders the environment variables of one Keystone user, as JSON. (list scope user) */}}
{{- define "stand-in.openrc" -}}
{{- $scope := index . 0 -}}
{{- $auth := get $scope.root.Values.endpoints.identity.auth (index . 1) -}}
{{- $openrc := dict "OS_AUTH_URL" (include "stand-in.uri" (list $scope "identity" "internal" "api")) -}}
{{- range $variable, $key := dict "OS_REGION_NAME" "region_name" "OS_PROJECT_NAME" "project_name" "OS_PROJECT_DOMAIN_NAME" "project_domain_name" "OS_USER_DOMAIN_NAME" "user_domain_name" "OS_USERNAME" "username" "OS_PASSWORD" "password" "OS_DOMAIN_NAME" "domain_name" -}}
{{- if hasKey $auth $key -}}{{- $_ := set $openrc $variable (toString (get $auth $key)) -}}{{- end -}}
{{- end -}}
{{- if not (hasKey $auth "domain_name") -}}
{{- $_ := set $openrc "OS_INTERFACE" (default "internal" $auth.interface) -}}
{{- $_ := set $openrc "OS_DEFAULT_DOMAIN" (default "default" $auth.default_domain_id) -}}
{{- end -}}
{{- toJson $openrc -}}
{{- end -}}
