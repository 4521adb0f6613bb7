package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// kinds are the only kinds that the manifests may contain.
var kinds = map[string]func() any{
	"v1/Namespace":                           func() any { return new(corev1.Namespace) },
	"v1/ServiceAccount":                      func() any { return new(corev1.ServiceAccount) },
	"v1/Service":                             func() any { return new(corev1.Service) },
	"v1/ConfigMap":                           func() any { return new(corev1.ConfigMap) },
	"v1/Secret":                              func() any { return new(corev1.Secret) },
	"apps/v1/Deployment":                     func() any { return new(appsv1.Deployment) },
	"apps/v1/StatefulSet":                    func() any { return new(appsv1.StatefulSet) },
	"batch/v1/Job":                           func() any { return new(batchv1.Job) },
	"batch/v1/CronJob":                       func() any { return new(batchv1.CronJob) },
	"v1/PersistentVolumeClaim":               func() any { return new(corev1.PersistentVolumeClaim) },
	"policy/v1/PodDisruptionBudget":          func() any { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1/NetworkPolicy":     func() any { return new(networkingv1.NetworkPolicy) },
	"autoscaling/v2/HorizontalPodAutoscaler": func() any { return new(autoscalingv2.HorizontalPodAutoscaler) },
}

// decode reads a manifest into its type. A field that the API does not have, or
// one given twice, is an error.
func decode(manifest []byte) (any, error) {
	var is struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(manifest, &is); err != nil {
		return nil, err
	}
	empty, known := kinds[is.APIVersion+"/"+is.Kind]
	if !known {
		return nil, fmt.Errorf("unknown kind %s/%s", is.APIVersion, is.Kind)
	}
	object := empty()
	if err := yaml.UnmarshalStrict(manifest, object); err != nil {
		return nil, fmt.Errorf("%s: %w", is.Kind, err)
	}
	return object, nil
}

// build does what `kubectl kustomize` does, with its rule that no file is read
// from outside a kustomization's folder.
func build(dir string) ([]any, error) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var objects []any
	var errs []error
	for _, resource := range made.Resources() {
		manifest, err := resource.AsYAML()
		if err != nil {
			return nil, err
		}
		object, err := decode(manifest)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", resource.CurId(), err))
		}
		objects = append(objects, object)
	}
	return objects, errors.Join(errs...)
}

// Each is built once; tests only read them.
var (
	ledgerOnce  = sync.OnceValues(func() ([]any, error) { return build("ledger") })
	exampleOnce = sync.OnceValues(func() ([]any, error) { return buildExample("../../components/tools") })
	deviceOnce  = sync.OnceValues(func() ([]any, error) { return buildExample("../../components/tools, ../../components/device") })
)

func ledger(t *testing.T) []any     { return must(t, ledgerOnce) }
func example(t *testing.T) []any    { return must(t, exampleOnce) }
func withDevice(t *testing.T) []any { return must(t, deviceOnce) }

func must(t *testing.T, build func() ([]any, error)) []any {
	t.Helper()
	objects, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// buildExample builds the overlay as its reader would: on a copy, with secrets
// that the script made, and with these components in place of the tools.
func buildExample(components string) (objects []any, err error) {
	folder, err := os.MkdirTemp("", "ledger-kubernetes-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	for _, name := range []string{"nats", "gateway", "kubernetes"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(filepath.Join("..", name))); err != nil {
			return nil, err
		}
	}
	overlay := filepath.Join(folder, "kubernetes/overlays/example")
	script := exec.Command("../deploy/secrets", filepath.Join(overlay, "secrets"))
	script.Env = append(os.Environ(), "NATS_HOSTS=nats-0.nats nats-1.nats nats-2.nats",
		"DATABASE_URL=postgres://ledger:p@db.example.com/ledger", "SOLANA_RPC_URL=https://rpc.example.com")
	if out, err := script.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	name := filepath.Join(overlay, "kustomization.yaml")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, bytes.ReplaceAll(text, []byte("../../components/tools"), []byte(components)), 0o644); err != nil {
		return nil, err
	}
	return build(overlay)
}

// of picks the objects of one type.
func of[T any](objects []any) []T {
	var all []T
	for _, o := range objects {
		if one, is := o.(T); is {
			all = append(all, one)
		}
	}
	return all
}

// workload is an object that has pods.
type workload struct {
	name   string
	kind   string
	labels map[string]string
	pod    corev1.PodSpec
	// claims are the volumes that a StatefulSet adds.
	claims []string
	once   bool // ends when its work is done
}

func workloads(objects []any) []workload {
	var all []workload
	for _, d := range of[*appsv1.Deployment](objects) {
		all = append(all, workload{name: d.Name, kind: "Deployment", labels: d.Spec.Template.Labels, pod: d.Spec.Template.Spec})
	}
	for _, s := range of[*appsv1.StatefulSet](objects) {
		w := workload{name: s.Name, kind: "StatefulSet", labels: s.Spec.Template.Labels, pod: s.Spec.Template.Spec}
		for _, c := range s.Spec.VolumeClaimTemplates {
			w.claims = append(w.claims, c.Name)
		}
		all = append(all, w)
	}
	for _, j := range of[*batchv1.Job](objects) {
		all = append(all, workload{name: j.Name, kind: "Job", labels: j.Spec.Template.Labels, pod: j.Spec.Template.Spec, once: true})
	}
	for _, j := range of[*batchv1.CronJob](objects) {
		pod := j.Spec.JobTemplate.Spec.Template
		all = append(all, workload{name: j.Name, kind: "CronJob", labels: pod.Labels, pod: pod.Spec, once: true})
	}
	return all
}

// container returns the only container of a workload's pod.
func (w workload) container(t *testing.T) corev1.Container {
	t.Helper()
	if len(w.pod.Containers) != 1 || len(w.pod.InitContainers) != 0 {
		t.Fatalf("%s: %d containers", w.name, len(w.pod.Containers))
	}
	return w.pod.Containers[0]
}

func named(t *testing.T, all []workload, name string) workload {
	t.Helper()
	for _, w := range all {
		if w.name == name {
			return w
		}
	}
	t.Fatalf("there is no %s", name)
	return workload{}
}
