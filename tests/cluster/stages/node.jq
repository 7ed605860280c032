# The report of a simulated kubelet about its node: $NODE_ACTION in the stages.
def steer($key):
  .metadata.annotations["kwok.osdpl.dev/" + $key] // .metadata.labels["kwok.osdpl.dev/" + $key] // "";
def observed: [.status.conditions[]? | select(.type == "Ready") | .status][0] // "";
def action:
  if .metadata.deletionTimestamp then "none"
  elif steer("ready") == "false" then (if observed == "False" then "none" else "not-ready" end)
  elif observed == "True" then "none"
  else "ready" end;
