# Decides which status of the condition Ready a simulated kubelet writes for its node. This program replaces
# $NODE_ACTION in node.yaml.
def steer($key):
  .metadata.annotations["kwok.osdpl.dev/" + $key] // .metadata.labels["kwok.osdpl.dev/" + $key] // "";
def observed: [.status.conditions[]? | select(.type == "Ready") | .status][0] // "";
def action:
  if .metadata.deletionTimestamp then "none"
  elif steer("ready") == "false" then (if observed == "False" then "none" else "not-ready" end)
  elif observed == "True" then "none"
  else "ready" end;
