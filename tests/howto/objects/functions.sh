# Shell functions for the rows of table.yaml: each terminal of the tests reads them.
shopt -s expand_aliases
set -o pipefail

queued() { # NAME: a request of this Service waits
  .venv/bin/activator status --json |
    jq -e --arg name "$1" 'any(.revisions[]; .name == $name and .queued > 0)'
}

printed() { # PATTERN: what a program of the page has printed
  grep -ho -m1 "$1" "$OUTPUTS"/*.output
}

address() { # of the activators in the cluster
  kubectl -n activator-system get service activator-service -o jsonpath='{.spec.clusterIP}'
}

forward() { # stays: the admin port of an activator
  kubectl -n activator-system port-forward deployment/activator 8080
}

component() { # OVERLAY NAME: edit the file as the page says
  sed -i "s,# - ../../components/$2\b,- ../../components/$2," \
    "manifests/overlays/$1/kustomization.yaml"
}

kill_activator() { # in its pod, so that kubelet starts it again
  local pod pid
  pod=$(kubectl -n activator-system get pods -l app=activator -o jsonpath='{.items[0].metadata.name}')
  pid=$(jq .activator "$(dirname "$KUBECONFIG")/pods/activator-system_$pod.json")
  grep -q activator "/proc/$pid/cmdline" && kill -9 "$pid"
}
