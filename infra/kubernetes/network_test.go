package kubernetes

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// peer is an end of a connection: a pod in our namespace, or something without labels in
// another namespace or in none ("").
type peer struct {
	namespace string
	labels    map[string]string
	port      string // by name, or by number if the port is not ours
}

const here = "memory-ledger"

func selects(t *testing.T, s *metav1.LabelSelector, with map[string]string) bool {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return selector.Matches(labels.Set(with))
}

func (p peer) isOneOf(t *testing.T, peers []networkingv1.NetworkPolicyPeer) bool {
	if len(peers) == 0 {
		return true
	}
	return slices.ContainsFunc(peers, func(n networkingv1.NetworkPolicyPeer) bool {
		if n.NamespaceSelector != nil {
			return p.namespace != "" && selects(t, n.NamespaceSelector, map[string]string{"kubernetes.io/metadata.name": p.namespace}) && n.PodSelector == nil
		}
		return n.PodSelector != nil && p.namespace == here && selects(t, n.PodSelector, p.labels)
	})
}

func (p peer) listens(ports []networkingv1.NetworkPolicyPort) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(n networkingv1.NetworkPolicyPort) bool { return n.Port.String() == p.port })
}

// allowed reports whether a network with these policies allows a connection. If a policy
// selects a pod, the pod takes, or makes, only connections that such a policy allows.
func allowed(t *testing.T, policies []*networkingv1.NetworkPolicy, from, to peer) bool {
	t.Helper()
	way := func(kind networkingv1.PolicyType, p peer, rule func(networkingv1.NetworkPolicySpec) bool) bool {
		if p.namespace != here {
			return true
		}
		closed := false
		for _, n := range policies {
			if slices.Contains(n.Spec.PolicyTypes, kind) && selects(t, &n.Spec.PodSelector, p.labels) {
				closed = true
				if rule(n.Spec) {
					return true
				}
			}
		}
		return !closed
	}
	return way(networkingv1.PolicyTypeEgress, from, func(s networkingv1.NetworkPolicySpec) bool {
		return slices.ContainsFunc(s.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return to.isOneOf(t, r.To) && to.listens(r.Ports)
		})
	}) && way(networkingv1.PolicyTypeIngress, to, func(s networkingv1.NetworkPolicySpec) bool {
		return slices.ContainsFunc(s.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return from.isOneOf(t, r.From) && to.listens(r.Ports)
		})
	})
}

// TestWhoTalksToWhom tries every pair: only the listed connections are allowed.
func TestWhoTalksToWhom(t *testing.T) {
	t.Parallel()
	objects := ledger(t)
	policies := of[*networkingv1.NetworkPolicy](objects)
	want := map[string][]string{
		"gateway":       {"core-api:http", "extension-api:http", "names:53"},
		"core-api":      {"nats:client", "database:5432", "chain:443", "names:53"},
		"extension-api": {"nats:client", "database:5432", "names:53"},
		"projector":     {"nats:client", "database:5432", "names:53"},
		"anchorer":      {"nats:client", "database:5432", "chain:443", "names:53"},
		"provision":     {"nats:client", "names:53"},
		"nats":          {"nats:cluster", "names:53"},
		"world":         {"gateway:https"},
		"monitoring":    {"core-api:http", "extension-api:http", "projector:http", "anchorer:http", "gateway:https"},
	}
	from := map[string]peer{"world": {}, "monitoring": {namespace: "monitoring"}}
	to := map[string]peer{"database:5432": {port: "5432"}, "chain:443": {port: "443"}, "names:53": {namespace: "kube-system", port: "53"}}
	for _, w := range workloads(objects) {
		from[w.name] = peer{namespace: here, labels: w.labels}
		for _, p := range w.container(t).Ports {
			to[w.name+":"+p.Name] = peer{namespace: here, labels: w.labels, port: p.Name}
		}
	}
	if len(from) != len(want) || len(to) < 10 {
		t.Fatalf("%d ends, %d listeners", len(from), len(to))
	}
	for name, f := range from {
		var got []string
		for target, p := range to {
			if (f.namespace == here || p.namespace == here) && allowed(t, policies, f, p) {
				got = append(got, target)
			}
		}
		slices.Sort(got)
		slices.Sort(want[name])
		if !slices.Equal(got, want[name]) {
			t.Errorf("%s may talk to %q, want %q", name, got, want[name])
		}
	}
}

// The manifests run the same programs as compose.yaml, with the same secrets and images.
func TestLikeCompose(t *testing.T) {
	t.Parallel()
	compose, dockerfile := read(t, "compose.yaml"), read(t, "infra/deploy/Dockerfile")
	var commands, ran []string
	for _, m := range regexp.MustCompile(`(?m)^  command: \[([a-z-]+)\]$|^    command: \[(provision|projector|anchorer)\]$`).FindAllStringSubmatch(compose, -1) {
		commands = append(commands, m[1]+m[2])
	}
	variables := regexp.MustCompile(`(?m)^ +([A-Z_]+_FILE|GOMEMLIMIT|[A-Z_]+_ADDR|NATS_CA|AUTHORITY_KEYPAIR): `)
	for _, w := range workloads(ledger(t)) {
		c := w.container(t)
		if !w.ours() {
			if !strings.Contains(dockerfile, "FROM "+c.Image+" ") && !strings.Contains(compose, "image: "+c.Image+"\n") {
				t.Errorf("%s: compose.yaml does not run %s", w.name, c.Image)
			}
			continue
		}
		ran = append(ran, c.Args...)
		for _, e := range c.Env {
			known := slices.ContainsFunc(variables.FindAllStringSubmatch(compose, -1), func(m []string) bool { return m[1] == e.Name })
			if !known && e.Name != "SOLANA_RPC_URL_FILE" { // compose.yaml has the URL in its own environment
				t.Errorf("%s: compose.yaml knows no %s", w.name, e.Name)
			}
		}
	}
	slices.Sort(commands)
	slices.Sort(ran)
	if len(commands) != 5 || !slices.Equal(commands, ran) {
		t.Errorf("compose.yaml runs %q, this %q", commands, ran)
	}
}

// Nodes and clients use names that exist, also in a rollout, when a node fails, and
// before the probes find a node ready.
func TestNodesOfTheLogFindEachOther(t *testing.T) {
	t.Parallel()
	objects := example(t)
	w := named(t, workloads(objects), "nats")
	routes := environment(t, objects, w.container(t))
	for i, name := range []string{"NATS_ROUTE_1", "NATS_ROUTE_2", "NATS_ROUTE_3"} {
		want := "nats://cluster:$(NATS_CLUSTER_PASSWORD)@nats-" + string(rune('0'+i)) + ".nats:6222"
		if routes[name] != want {
			t.Errorf("%s=%s, want %s", name, routes[name], want)
		}
	}
	for _, s := range of[*corev1.Service](objects) {
		if s.Name == "nats" && (s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses) {
			t.Error("nodes that are not ready yet have no names")
		}
	}
	// The clients' URL names all three.
	for _, sec := range of[*corev1.Secret](objects) {
		if url := string(sec.Data["nats_url_core"]); strings.HasPrefix(sec.Name, "nats-url-core") {
			for _, host := range []string{"@nats-0.nats:4222", "@nats-1.nats:4222", "@nats-2.nats:4222"} {
				if !strings.Contains(url, host) {
					t.Errorf("the api's URL does not name %s", host)
				}
			}
		}
	}
}
