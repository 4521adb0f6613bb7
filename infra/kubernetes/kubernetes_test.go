package kubernetes

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// hardening lists the settings that every workload must have and this workload lacks.
func hardening(w workload) (found []string) {
	complain := func(format string, args ...any) {
		found = append(found, w.name+": "+fmt.Sprintf(format, args...))
	}
	p := w.pod
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
		complain("gets a token for the cluster's API")
	}
	s := p.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 {
		complain("may be root")
	}
	if s == nil || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		complain("makes any system call")
	}
	if p.HostNetwork || p.HostPID || p.HostIPC {
		complain("lives in the host")
	}
	open := func(mode *int32) bool { return mode == nil || *mode != 0o440 }
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			complain("mounts the host's %s", v.HostPath.Path)
		}
		if v.Secret != nil && open(v.Secret.DefaultMode) || v.Projected != nil && open(v.Projected.DefaultMode) {
			complain("secrets of %s are readable by all", v.Name)
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			complain("volume %s grows without bound", v.Name)
		}
	}
	for _, c := range slices.Concat(p.InitContainers, p.Containers) {
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			limit, request := c.Resources.Limits[r], c.Resources.Requests[r]
			if limit.IsZero() || request.IsZero() {
				complain("%s is not limited, or not asked for", r)
			}
		}
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			complain("its root can be written")
		}
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Privileged != nil && *s.Privileged {
			complain("may gain privileges")
		}
		if s == nil || s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			complain("has capabilities")
		}
		beside := c.RestartPolicy != nil // as the device of a master key: it ends when it fails
		if c.StartupProbe == nil && (beside || !w.once) || !beside && !w.once && (c.LivenessProbe == nil || c.ReadinessProbe == nil) {
			complain("nobody asks after its health")
		}
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil && !beside && (probe.HTTPGet == nil || !hasPort(c, probe.HTTPGet.Port.String())) {
				complain("a probe asks at a port that it does not have")
			}
		}
		if c.Name == "nats" && c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold < 24*60*60 {
			complain("is stopped while it catches up with a large log")
		}
		if tag := c.Image[strings.LastIndex(c.Image, "/")+1:]; !w.ours() && !strings.Contains(tag, ":") {
			complain("image %s is not pinned", c.Image)
		}
	}
	return found
}

func (w workload) ours() bool {
	return strings.Contains(w.pod.Containers[0].Image, "memory-ledger")
}

func hasPort(c corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
}

func TestWorkloadsAreHardened(t *testing.T) {
	t.Parallel()
	for _, o := range []struct {
		objects []any
		want    int
	}{{ledger(t), 7}, {example(t), 8}, {withDevice(t), 8}} { // only an overlay may add the tools
		all := workloads(o.objects)
		if len(all) != o.want {
			t.Errorf("%d workloads", len(all))
		}
		for _, w := range all {
			for _, c := range hardening(w) {
				t.Error(c)
			}
		}
	}
}

// TestTheKeyInADevice: whatever uses the master key has the device's program beside it, with
// a common socket. Only that program gets the PIN.
func TestTheKeyInADevice(t *testing.T) {
	t.Parallel()
	objects := withDevice(t)
	pin, users := "", 0
	for _, s := range of[*corev1.Secret](objects) {
		if len(s.Data["device_pin"]) > 0 {
			pin = s.Name
		}
	}
	mounts := func(c corev1.Container, path string) string {
		for _, m := range c.VolumeMounts {
			if m.MountPath == path {
				return m.Name
			}
		}
		return ""
	}
	for _, w := range workloads(objects) {
		uses := slices.ContainsFunc(w.pod.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == "MASTER_KEY_FILE" })
		if !uses {
			if len(w.pod.InitContainers) > 0 {
				t.Errorf("%s has the device, and no use for it", w.name)
			}
			continue
		}
		users++
		if len(w.pod.InitContainers) != 1 {
			t.Errorf("%s has no device", w.name)
			continue
		}
		device := w.pod.InitContainers[0]
		if r := device.RestartPolicy; r == nil || *r != corev1.ContainerRestartPolicyAlways {
			t.Errorf("%s: the device ends before the service starts", w.name)
		}
		if socket := mounts(device, "/run/ledger-key"); socket == "" || socket != mounts(w.pod.Containers[0], "/run/ledger-key") {
			t.Errorf("%s: no common socket", w.name)
		}
		if mounts(device, "/run/pin") != "pin" || mounts(w.pod.Containers[0], "/run/pin") != "" ||
			!slices.ContainsFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == pin }) {
			t.Errorf("%s: the PIN is not with the device alone", w.name)
		}
		if key := environment(t, objects, device)["DEVICE_KEY"]; !strings.HasPrefix(key, "pkcs11:") {
			t.Errorf("%s: the device's key is %q", w.name, key)
		}
	}
	if users != 3 || pin == "" {
		t.Errorf("%d users, the PIN is in %q", users, pin)
	}
}

// settings returns the variables that services/run/config reads. files are those that
// may also be given as X_FILE.
func settings(t *testing.T) (known, files []string) {
	t.Helper()
	source := read(t, "services/run/config/config.go")
	known = []string{"GOMEMLIMIT"} // Go itself reads it
	for _, m := range regexp.MustCompile("`env:\"([A-Z_]+)\"").FindAllStringSubmatch(source, -1) {
		known = append(known, m[1])
	}
	list := regexp.MustCompile(`(?m)^var fromFiles = .*$`).FindString(source)
	for _, m := range regexp.MustCompile(`"([A-Z_]+)"`).FindAllStringSubmatch(list, -1) {
		files = append(files, m[1])
	}
	if len(known) < 20 || len(files) < 5 {
		t.Fatalf("settings %q, files %q", known, files)
	}
	return known, files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// environment returns a container's variables. The value is "" if another object, such
// as a Secret, has it.
func environment(t *testing.T, objects []any, c corev1.Container) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, from := range c.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			maps.Copy(all, object[*corev1.ConfigMap](t, objects, from.ConfigMapRef.Name).Data)
		case from.SecretRef != nil:
			for name := range object[*corev1.Secret](t, objects, from.SecretRef.Name).Data {
				all[name] = ""
			}
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			if from := e.ValueFrom.SecretKeyRef; len(object[*corev1.Secret](t, objects, from.Name).Data[from.Key]) == 0 {
				t.Errorf("%s: Secret %s has no %s", e.Name, from.Name, from.Key)
			}
		}
		all[e.Name] = e.Value
	}
	return all
}

// object returns the object of a kind that has the name.
func object[T metav1.Object](t *testing.T, objects []any, name string) T {
	t.Helper()
	all := of[T](objects)
	i := slices.IndexFunc(all, func(o T) bool { return o.GetName() == name })
	if i < 0 {
		t.Fatalf("there is no %T %s", *new(T), name)
	}
	return all[i]
}

// mounted returns the files that a container sees in volumes of Secrets and
// ConfigMaps. It fails the test if one of them is missing.
func mounted(t *testing.T, objects []any, w workload) []string {
	t.Helper()
	in := map[string][]string{}
	take := func(volume, name string, has map[string][]byte, items []corev1.KeyToPath) {
		for key := range has {
			if items == nil {
				in[volume] = append(in[volume], key)
			}
		}
		for _, item := range items {
			if value, is := has[item.Key]; !is || (len(value) == 0) != (item.Key == "master_key_previous") {
				t.Errorf("%s: Secret %s has no %s", w.name, name, item.Key)
			}
			in[volume] = append(in[volume], item.Path)
		}
	}
	for _, v := range w.pod.Volumes {
		if v.Secret != nil {
			take(v.Name, v.Secret.SecretName, object[*corev1.Secret](t, objects, v.Secret.SecretName).Data, v.Secret.Items)
		}
		if v.ConfigMap != nil {
			for key := range object[*corev1.ConfigMap](t, objects, v.ConfigMap.Name).Data {
				in[v.Name] = append(in[v.Name], key)
			}
		}
		if v.Projected != nil {
			for _, s := range v.Projected.Sources {
				take(v.Name, s.Secret.Name, object[*corev1.Secret](t, objects, s.Secret.Name).Data, s.Secret.Items)
			}
		}
	}
	var files []string
	for _, m := range w.container(t).VolumeMounts {
		if !slices.ContainsFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) && !slices.Contains(w.claims, m.Name) {
			t.Errorf("%s mounts %s, which is no volume", w.name, m.Name)
		}
		for _, name := range in[m.Name] {
			files = append(files, filepath.Join(m.MountPath, name))
		}
	}
	return files
}

// A service reads every variable that it is given. A secret is given as a file, and
// the file exists. Browsers get DASHBOARD_RPC_URL, which is no secret.
func TestVariablesAreRead(t *testing.T) {
	t.Parallel()
	known, files := settings(t)
	objects := example(t)
	browsersCheck := false
	for _, w := range workloads(objects) {
		there := mounted(t, objects, w)
		sensitive := regexp.MustCompile(`PASSWORD|SECRET|MASTER_KEY|KEYPAIR|NATS_URL|DATABASE_URL|GATEWAY_KEY|TLS_KEY|RPC_URL`)
		for name, value := range environment(t, objects, w.container(t)) {
			if strings.HasPrefix(value, "/run/secrets/") && !slices.Contains(there, value) {
				t.Errorf("%s: %s=%s, and there is no such file, only %q", w.name, name, value, there)
			}
			if sensitive.MatchString(name) && name != "DASHBOARD_RPC_URL" && value != "" && !strings.HasPrefix(value, "/run/secrets/") {
				t.Errorf("%s: %s has a value", w.name, name)
			}
			if !w.ours() {
				continue
			}
			if w.name == "core-api" && name == "DASHBOARD_RPC_URL" {
				browsersCheck = value != ""
			}
			if of, isFile := strings.CutSuffix(name, "_FILE"); isFile && !slices.Contains(files, of) || !isFile && !slices.Contains(known, name) {
				t.Errorf("%s: nobody reads %s", w.name, name)
			}
		}
	}
	if !browsersCheck {
		t.Error("the dashboard has no node to check the chain with")
	}
}

// The servers are given every variable that their configuration uses, and no other.
func TestConfigurationsGetTheirVariables(t *testing.T) {
	t.Parallel()
	objects := example(t)
	comment := regexp.MustCompile(`(?m)^\s*#.*$`)
	for _, server := range []struct {
		workload, prefix string
		variable         *regexp.Regexp
		files            []string
	}{
		{"nats", "NATS_", regexp.MustCompile(`\$(NATS_[A-Z0-9_]+)`), []string{"node.conf", "server.conf", "accounts.conf", "cluster.conf"}},
		{"gateway", "GATEWAY_", regexp.MustCompile(`\$\{(GATEWAY_[A-Z_]+)\}`), []string{"nginx.conf.template"}},
	} {
		var wanted []string
		for _, name := range server.files {
			text := comment.ReplaceAllString(read(t, filepath.Join("infra", server.workload, name)), "")
			for _, m := range server.variable.FindAllStringSubmatch(text, -1) {
				wanted = append(wanted, m[1])
			}
		}
		slices.Sort(wanted)
		wanted = slices.Compact(wanted)
		var given []string
		for name := range environment(t, objects, named(t, workloads(objects), server.workload).container(t)) {
			if strings.HasPrefix(name, server.prefix) {
				given = append(given, name)
			}
		}
		slices.Sort(given)
		if len(wanted) < 8 || !slices.Equal(wanted, given) {
			t.Errorf("%s wants %q, is given %q", server.workload, wanted, given)
		}
	}
}

// The gateway's settings about the services match the services' own settings.
func TestGatewayAndServicesAgree(t *testing.T) {
	t.Parallel()
	for _, objects := range [][]any{ledger(t), example(t)} {
		all := workloads(objects)
		gateway := environment(t, objects, named(t, all, "gateway").container(t))
		services := environment(t, objects, named(t, all, "extension-api").container(t))
		for _, origins := range []string{"CORE_ALLOWED_ORIGINS", "EXTENSION_ALLOWED_ORIGINS"} {
			if got, want := gateway["GATEWAY_"+origins], services[origins]; got != want {
				t.Errorf("%s: the gateway allows %q, the service %q", origins, got, want)
			}
		}
		for api, host := range map[string]string{"CORE": gateway["GATEWAY_CORE_HOST"], "EXTENSION": gateway["GATEWAY_EXTENSION_HOST"]} {
			if services[api+"_URL"] != "https://"+host {
				t.Errorf("the gateway is %s, the service %s", host, services[api+"_URL"])
			}
		}
	}
}

// GOMEMLIMIT stays below the memory limit of the pod. Jobs to be run by hand do not run
// by themselves.
func TestMemoryAndTools(t *testing.T) {
	t.Parallel()
	objects := example(t)
	for _, w := range workloads(objects) {
		c := w.container(t)
		if !w.ours() || w.name == "provision" {
			continue
		}
		limit := c.Resources.Limits[corev1.ResourceMemory]
		goal := resource.MustParse(strings.TrimSuffix(environment(t, objects, c)["GOMEMLIMIT"], "B"))
		if goal.Value() > limit.Value()*9/10 || goal.Value() < limit.Value()*8/10 {
			t.Errorf("%s: GOMEMLIMIT is %s of %s", w.name, goal.String(), limit.String())
		}
	}
	for _, j := range of[*batchv1.CronJob](objects) {
		if j.Spec.Suspend == nil || !*j.Spec.Suspend {
			t.Errorf("%s runs by itself", j.Name)
		}
		// A CronJob also counts the Jobs that were made from it by hand. By default it
		// removes all but three of them, and all but one that failed, with their logs.
		for _, limit := range []*int32{j.Spec.SuccessfulJobsHistoryLimit, j.Spec.FailedJobsHistoryLimit} {
			if limit == nil || *limit < 100 || j.Spec.JobTemplate.Spec.TTLSecondsAfterFinished == nil {
				t.Errorf("%s: its Jobs are not kept until their time is over", j.Name)
			}
		}
	}
}

// Services, budgets, and autoscalers point at existing workloads.
func TestSelectorsSelect(t *testing.T) {
	t.Parallel()
	objects := example(t)
	all := workloads(objects)
	selected := func(selector map[string]string) (hit []workload) {
		for _, w := range all {
			if labels.SelectorFromSet(selector).Matches(labels.Set(w.labels)) {
				hit = append(hit, w)
			}
		}
		return hit
	}
	for _, s := range of[*corev1.Service](objects) {
		hit := selected(s.Spec.Selector)
		if len(hit) != 1 {
			t.Errorf("Service %s selects %d workloads", s.Name, len(hit))
			continue
		}
		for _, p := range s.Spec.Ports {
			if name := p.TargetPort.String(); name != "0" && !hasPort(hit[0].container(t), name) {
				t.Errorf("Service %s: %s has no port %s", s.Name, hit[0].name, name)
			}
		}
	}
	budgets := map[string]bool{}
	for _, b := range of[*policyv1.PodDisruptionBudget](objects) {
		for _, w := range selected(b.Spec.Selector.MatchLabels) {
			budgets[w.name] = true
			// While the database is away, no service is ready. Without AlwaysAllow no
			// Kubernetes node could be drained then. For the nodes of the log AlwaysAllow must
			// not be set: a node that is not ready may be one that is needed.
			policy := b.Spec.UnhealthyPodEvictionPolicy
			if always := policy != nil && *policy == policyv1.AlwaysAllow; always != (w.kind == "Deployment") {
				t.Errorf("%s: a drain takes pods that are not ready: %v", w.name, always)
			}
		}
	}
	for _, w := range all {
		if !w.once && !budgets[w.name] {
			t.Errorf("%s: a drain may take all of it", w.name)
		}
	}
	for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](objects) {
		if w := named(t, all, h.Spec.ScaleTargetRef.Name); w.kind != h.Spec.ScaleTargetRef.Kind || *h.Spec.MinReplicas < 2 {
			t.Errorf("%s scales %s %s", h.Name, h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name)
		}
	}
	for _, d := range of[*appsv1.Deployment](objects) {
		scaled := slices.ContainsFunc(of[*autoscalingv2.HorizontalPodAutoscaler](objects), func(h *autoscalingv2.HorizontalPodAutoscaler) bool {
			return h.Spec.ScaleTargetRef.Name == d.Name
		})
		if scaled != (d.Spec.Replicas == nil) || !scaled && *d.Spec.Replicas < 2 {
			t.Errorf("%s: an autoscaler %v, replicas %v", d.Name, scaled, d.Spec.Replicas)
		}
		matches(t, d.Name, d.Spec.Selector, d.Spec.Template.Labels)
	}
	for _, s := range of[*appsv1.StatefulSet](objects) {
		matches(t, s.Name, s.Spec.Selector, s.Spec.Template.Labels)
		if *s.Spec.Replicas != 3 {
			t.Errorf("%s: %d nodes", s.Name, *s.Spec.Replicas)
		}
	}
}

func matches(t *testing.T, name string, selector *metav1.LabelSelector, with map[string]string) {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || !s.Matches(labels.Set(with)) {
		t.Errorf("%s does not select its own pods: %v", name, err)
	}
}
