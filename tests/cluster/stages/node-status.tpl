addresses:
- {type: InternalIP, address: {{ NodeIP | Quote }}}
- {type: Hostname, address: {{ NodeName | Quote }}}
daemonEndpoints: {kubeletEndpoint: {Port: $KUBELET_PORT}}
allocatable: {cpu: "64", memory: 256Gi, ephemeral-storage: 1Ti, pods: "500"}
capacity: {cpu: "64", memory: 256Gi, ephemeral-storage: 1Ti, pods: "500"}
nodeInfo:
  architecture: amd64
  bootID: ""
  containerRuntimeVersion: kwok://{{ Version }}
  kernelVersion: kwok
  kubeProxyVersion: ""
  kubeletVersion: $KUBERNETES_VERSION
  machineID: ""
  operatingSystem: linux
  osImage: simulated
  systemUUID: ""
phase: Running
