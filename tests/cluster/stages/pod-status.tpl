conditions:
- {type: PodReadyToStartContainers, status: {{ $sandbox | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: Initialized, status: {{ $initialized | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: ContainersReady, status: {{ $ready | Quote }}, reason: {{ $reason | Quote }}, lastTransitionTime: {{ $now | Quote }}}
- {type: Ready, status: {{ $ready | Quote }}, reason: {{ $reason | Quote }}, lastTransitionTime: {{ $now | Quote }}}
{{ range .spec.readinessGates }}
- {type: {{ .conditionType | Quote }}, status: {{ $ready | Quote }}, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
initContainerStatuses:
{{ range $index, $container := .spec.initContainers }}
- name: {{ $container.name | Quote }}
  image: {{ $container.image | Quote }}
  imageID: ""
  ready: {{ eq $initialized "True" }}
  restartCount: 0
  state: {{ if or (eq $index 0) (eq $initialized "True") }}{{ toJson $initState }}{{ else }}{waiting: {reason: PodInitializing}}{{ end }}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
{{ $repository := regexReplaceAll "(:[^/:@]+)?(@.*)?$" .image "" }}
{{ $content := or (regexFind "sha256:[0-9a-f]{64}$" .image) $digest (printf "sha256:%s" (sha256sum .image)) }}
- name: {{ .name | Quote }}
  image: {{ .image | Quote }}
  imageID: {{ if eq $phase "Pending" }}""{{ else }}{{ printf "%s@%s" $repository $content | Quote }}{{ end }}
  ready: {{ eq $ready "True" }}
  started: {{ eq $phase "Running" }}
  restartCount: {{ $restarts }}
  state: {{ toJson $state }}
  lastState: {{ toJson $lastState }}
{{ end }}
{{ with NodeIPsWith .spec.nodeName }}
hostIP: {{ index . 0 | Quote }}
hostIPs: [{{ range . }}{ip: {{ . | Quote }}},{{ end }}]
{{ end }}
{{ if and (eq $sandbox "True") (not .status.podIP) }}
{{ with PodIPsWith .spec.nodeName (or .spec.hostNetwork false) (or .metadata.uid "") (or .metadata.name "") (or .metadata.namespace "") }}
podIP: {{ index . 0 | Quote }}
podIPs: [{{ range . }}{ip: {{ . | Quote }}},{{ end }}]
{{ end }}
{{ end }}
phase: {{ $phase | Quote }}
startTime: {{ or .status.startTime $now | Quote }}
