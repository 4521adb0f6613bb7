package deploy_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow = testkit.Must, testkit.Slow

const root = "../.."

// compose reads compose.yaml, with the device of a master key, as `docker compose config`
// does: against the schema of the Compose specification, with every reference resolved.
func compose(t *testing.T) *types.Project { return composeWith(t, types.Mapping{}) }

// composeWith reads it with settings of a file .env.
func composeWith(t *testing.T, settings types.Mapping) *types.Project {
	t.Helper()
	dir, err := filepath.Abs(root)
	must(t, err)
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  dir,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(dir, "compose.yaml")}, {Filename: filepath.Join(dir, "infra/deploy/compose.device.yaml")}},
		Environment: settings,
	}, loader.WithProfiles([]string{"*"}))
	must(t, err)
	return project
}

// once is the service that ends when its work is done. tools is the service that is
// run by hand.
const (
	once  = "provision"
	tools = "tools"
)

func TestServicesAreHardened(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		if !s.ReadOnly {
			t.Errorf("%s: its root can be written", name)
		}
		if uid, _, _ := strings.Cut(s.User, ":"); uid == "" || uid == "0" || uid == "root" {
			t.Errorf("%s: runs as %q", name, s.User)
		}
		if !slices.Equal(s.CapDrop, []string{"ALL"}) || len(s.CapAdd) > 0 || s.Privileged {
			t.Errorf("%s: capabilities: dropped %v, added %v", name, s.CapDrop, s.CapAdd)
		}
		if !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s: may gain privileges", name)
		}
		if s.Deploy == nil || s.Deploy.Resources.Limits == nil || s.Deploy.Resources.Limits.MemoryBytes == 0 || s.Deploy.Resources.Limits.NanoCPUs == 0 {
			t.Errorf("%s: takes what it wants", name)
		}
		if s.HealthCheck == nil && name != once && name != tools {
			t.Errorf("%s: nobody asks after its health", name)
		}
		if s.NetworkMode != "" || len(s.Networks) == 0 {
			t.Errorf("%s: is on no network of ours", name)
		}
	}
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("Dockerfile")
	must(t, err)
	var images []string
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(text), -1) {
		images = append(images, m[1])
	}
	for _, s := range compose(t).Services {
		if s.Build == nil {
			images = append(images, s.Image)
		}
	}
	pinned := regexp.MustCompile(`^[a-z/-]+:v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`)
	for _, image := range images {
		if image != "scratch" && !pinned.MatchString(image) {
			t.Errorf("%s: not pinned to a version", image)
		}
	}
	// Tests must run the server version that is deployed.
	mod, err := os.ReadFile("../go.mod")
	must(t, err)
	version := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindSubmatch(mod)
	if version == nil || !slices.ContainsFunc(images, func(i string) bool { return strings.HasPrefix(i, "nats:"+string(version[1])+"-") }) {
		t.Errorf("go.mod has nats-server %s, the images are %v", version, images)
	}
}

// A service waits until each service that it depends on is healthy. If it depends on
// provision, it waits until provision has ended with success.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	services := compose(t).Services
	for name, s := range services {
		for on, how := range s.DependsOn {
			want := types.ServiceConditionHealthy
			if on == once {
				want = types.ServiceConditionCompletedSuccessfully
			}
			if how.Condition != want {
				t.Errorf("%s waits for %s to be %s, want %s", name, on, how.Condition, want)
			}
		}
		if s.Build != nil && s.Build.Target == "ledger" && name != once {
			if _, waits := s.DependsOn[once]; !waits {
				t.Errorf("%s does not wait for %s", name, once)
			}
		}
	}
}

// The script makes each file that compose.yaml names. The environment names the file of
// a secret, never its value.
func TestSecretsAreFiles(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "secrets")
	for range 2 { // the second run changes nothing
		before := contents(t, dir)
		if out, err := exec.Command("./secrets", dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for name, text := range before {
			if contents(t, dir)[name] != text {
				t.Errorf("%s was changed", name)
			}
		}
	}
	made := contents(t, dir)
	// Without the authority's key, existing files stay and no new file is made.
	must(t, errors.Join(os.Remove(filepath.Join(dir, "ca_key")), os.Remove(filepath.Join(dir, "nats_certificate"))))
	if out, err := exec.Command("./secrets", dir).CombinedOutput(); err == nil || !strings.Contains(string(out), "ca_key is missing") {
		t.Errorf("without the authority's key: %v: %s", err, out)
	}
	project := compose(t)
	for name, secret := range project.Secrets {
		if text, is := made[filepath.Base(secret.File)]; !is || (text == "") != (name == "master_key_previous") {
			t.Errorf("%s: nobody makes %s", name, secret.File)
		}
	}
	if _, is := made["solana_rpc_url"]; is {
		t.Error("there is a solana_rpc_url, which nobody reads")
	}
	sensitive := regexp.MustCompile(`PASSWORD|SECRET|MASTER_KEY|KEYPAIR|NATS_URL|DATABASE_URL|GATEWAY_KEY|TLS_KEY`)
	for name, s := range project.Services {
		given := map[string]bool{}
		for _, secret := range s.Secrets {
			given["/run/secrets/"+secret.Source] = true
		}
		for variable, value := range s.Environment {
			if sensitive.MatchString(variable) && value != nil && !given[*value] {
				t.Errorf("%s: %s=%s is not a file that it was given", name, variable, *value)
			}
		}
	}
	for _, v := range project.Volumes {
		if v.External {
			t.Errorf("volume %s is not ours", v.Name)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must(t, err)
		all[e.Name()] = string(text)
	}
	return all
}

// Every mounted file and every Dockerfile must exist.
func TestMountedFilesExist(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if !v.ReadOnly {
				t.Errorf("%s may write to %s", name, v.Source)
			}
			if _, err := os.Stat(v.Source); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if s.Build == nil {
			continue
		}
		if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The APIs' caches fit into GOMEMLIMIT, which tells the garbage collector about the
// memory limit.
func TestCachesFit(t *testing.T) {
	t.Parallel()
	const (
		owner = 8900      // bytes of one owner in memory, from docs/performance.md
		rest  = 100 << 20 // other bytes that an API holds, from docs/operations.md
	)
	number := func(s types.ServiceConfig, variable string) int64 {
		t.Helper()
		value := s.Environment[variable]
		if value == nil {
			t.Fatalf("%s: no %s", s.Name, variable)
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(*value, "MiB"), 10, 64)
		must(t, err)
		if strings.HasSuffix(*value, "MiB") {
			n <<= 20
		}
		return n
	}
	for name, s := range compose(t).Services {
		if s.Build == nil || s.Build.Target != "ledger" || name == once {
			continue
		}
		limit, goal := int64(s.Deploy.Resources.Limits.MemoryBytes), number(s, "GOMEMLIMIT")
		if goal > limit*9/10 || goal < limit*8/10 {
			t.Errorf("%s: GOMEMLIMIT is %d of %d", name, goal, limit)
		}
		if holds := number(s, "BODY_CACHE_BYTES") + 25_000*owner + rest; holds > goal {
			t.Errorf("%s: %d bytes do not fit into %d", name, holds, goal)
		}
	}
}

// Only the gateway is reachable from outside, and the inner network can't call out. No
// address is fixed: a network with that address may be there already.
func TestOnlyTheGatewayIsOpen(t *testing.T) {
	t.Parallel()
	project := compose(t)
	if !project.Networks["inner"].Internal {
		t.Error("the inner network has a way out")
	}
	for name, network := range project.Networks {
		if len(network.Ipam.Config) > 0 {
			t.Errorf("the addresses of %s are fixed", name)
		}
	}
	for name, s := range project.Services {
		for on, network := range s.Networks {
			if network != nil && network.Ipv4Address != "" {
				t.Errorf("%s has a fixed address on %s", name, on)
			}
		}
		for _, p := range s.Ports {
			if name != "gateway" && p.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s is open to all", name, p.Published)
			}
		}
	}
}

// TestTheKeyInADevice: who uses the master key gets the socket of the device's program, and
// waits for it. Only that program gets the PIN.
func TestTheKeyInADevice(t *testing.T) {
	t.Parallel()
	project := composeWith(t, types.Mapping{"DEVICE_KEY": "pkcs11:token=t;object=o?module-path=/m.so"})
	has := func(s types.ServiceConfig, secret string) bool {
		return slices.ContainsFunc(s.Secrets, func(c types.ServiceSecretConfig) bool { return c.Source == secret })
	}
	users := 0
	for name, s := range project.Services {
		socket := slices.ContainsFunc(s.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == "key" && v.Target == "/run/ledger-key" })
		_, waits := s.DependsOn["device"]
		if uses := has(s, "master_key"); uses != waits || socket != (uses || name == "device") || has(s, "device_pin") != (name == "device") {
			t.Errorf("%s: uses the key %v, has the socket %v, waits %v", name, uses, socket, waits)
		} else if uses {
			users++
		}
	}
	want := []string{"--generate", "/run/ledger-key/key.sock", "pkcs11:token=t;object=o?module-path=/m.so&pin-source=file:/run/secrets/device_pin"}
	if got := project.Services["device"].Command; users != 5 || !slices.Equal(got, want) {
		t.Errorf("%d users, the device runs %q", users, got)
	}
}

// TestOneSettingTurnsAnchoringOn: without a chain there is no anchorer that would wait for it.
func TestOneSettingTurnsAnchoringOn(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]int{"": 0, "https://rpc.example.com": 1} {
		services := composeWith(t, types.Mapping{"SOLANA_RPC_URL": url}).Services
		if got := services["anchorer"].Deploy.Replicas; got == nil || *got != want {
			t.Errorf("SOLANA_RPC_URL=%s: %v anchorers", url, got)
		}
		for _, name := range []string{"core-api-1", "anchorer"} {
			if given := services[name].Environment["SOLANA_RPC_URL"]; given == nil || *given != url {
				t.Errorf("SOLANA_RPC_URL=%s: %s gets %v", url, name, given)
			}
		}
	}
}

// TestEverySettingIsAnExample: each setting of compose.yaml is in .env.example, with the
// default that it has in compose.yaml. Addresses and files inside of containers are no
// settings, nor is what the file itself decides.
func TestEverySettingIsAnExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/compose.yaml")
	must(t, err)
	example, err := os.ReadFile(root + "/.env.example")
	must(t, err)
	set := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`).FindAllStringSubmatch(string(text), -1) {
		name, value := m[1], m[2]
		set[name] = true
		entry := regexp.MustCompile(`(?m)^((?:# .*\n)+)#` + name + `=(.*)$`).FindStringSubmatch(string(example))
		if entry == nil {
			t.Errorf("%s is not in .env.example", name)
		} else if entry[2] != value && !strings.Contains(entry[1], "# In compose.yaml: "+value+".\n") && value != "" {
			t.Errorf("%s is %q in compose.yaml, and .env.example does not say so", name, value)
		}
	}
	for _, s := range compose(t).Services {
		if s.Build == nil || s.Build.Target != "ledger" || s.Name == tools {
			continue
		}
		for name, value := range s.Environment {
			inside := strings.HasSuffix(name, "_FILE") || strings.HasSuffix(name, "_ADDR") || strings.HasPrefix(*value, "/run/secrets/")
			if !set[name] && !inside && !slices.Contains([]string{"GOMEMLIMIT", "NATS_REPLICAS"}, name) {
				t.Errorf("%s: %s can't be set in .env", s.Name, name)
			}
		}
	}
}
