# Decides what a simulated kubelet does next with a pod, and after which delay. This program, joined to one line,
# replaces $POD_ACTION (which calls `action`) and $POD_DELAY (which calls `delay`) in pod.yaml.

# Returns a setting of the pod, such as `behaviour`, from the annotation. If the pod has no such annotation, returns it
# from the label.
def steer($key):
  .metadata.annotations["kwok.osdpl.dev/" + $key] // .metadata.labels["kwok.osdpl.dev/" + $key] // "";

def condition($type): [.status.conditions[]? | select(.type == $type) | .status][0] // "";

def restarts: [.status.containerStatuses[]?.restartCount] | max // 0;

# Returns the state of the pod: ready, running (but not ready), the reason why its first container waits, or new.
def observed:
  .status.containerStatuses[0].state as $state
  | if condition("Ready") == "True" then "ready"
    elif $state.running then "running"
    elif $state.waiting then $state.waiting.reason
    else "new" end;

# Whether the pod ends by itself, like the pods of Jobs. Pods with the restart policy Always keep running.
def ends: (.spec.restartPolicy // "Always") != "Always";

# Returns the next action for a pod that works. With the setting `delay`, the pod first runs for this time without being
# Ready.
def works:
  observed as $at
  | if ends then
      (if steer("delay") != "" and $at != "running" and $at != "ready" then "run" else "complete" end)
    elif steer("ready") == "false" or steer("node-ready") == "false" then
      (if $at == "running" then "none" else "run" end)
    elif $at == "ready" then "none"
    elif steer("delay") != "" and $at != "running" then "run"
    else "start" end;

def fails: if .spec.restartPolicy == "Never" then "fail" else "crash" end;

def action:
  observed as $at
  | steer("behaviour") as $behaviour
  | if .metadata.deletionTimestamp then
      # With grace period 0, the deletion waits only for finalizers. kwok would delete the pod again by its name, and
      # could delete the next pod of a StatefulSet, which has the same name.
      (if .metadata.deletionGracePeriodSeconds == 0 then "none" else "delete" end)
    elif (.spec.nodeName // "") == "" or .status.phase == "Succeeded" or .status.phase == "Failed" then "none"
    elif steer("released") != "true" then
      (if steer("waits-in") == "init" and $at != "PodInitializing" then "wait"
       elif steer("waits-in") == "volumes" and $at != "ContainerCreating" then "create"
       elif steer("waits-in") == "config" and $at != "CreateContainerConfigError" then "configure"
       else "none" end)
    elif $behaviour == "hang" then (if $at == "running" or ($at == "ready" and ends) then "none" else "run" end)
    elif $behaviour == "creating" then (if $at == "ContainerCreating" then "none" else "create" end)
    elif $behaviour == "image-pull-error" then (if $at == "ImagePullBackOff" then "none" else "pull" end)
    elif $behaviour == "crash-loop" or $behaviour == "fail" then fails
    elif $behaviour == "fail-once" and restarts == 0 and steer("failed-before") != "true" then fails
    else works end;

def or_else($default): if . == "" then $default else . end;

def delay:
  action as $action
  | if $action == "crash" then
      (if observed == "CrashLoopBackOff" then (steer("restart-delay") | or_else("2s")) else "100ms" end)
    elif observed == "CrashLoopBackOff" then (steer("restart-delay") | or_else("500ms"))
    elif $action == "start" or $action == "complete" then (steer("delay") | or_else("200ms"))
    elif $action == "fail" then (steer("delay") | or_else("100ms"))
    elif $action == "delete" then (steer("termination-delay") | or_else("0s"))
    else "0s" end;
