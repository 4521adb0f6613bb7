package emptyroot

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestOneMachine: on an empty Debian, infra/deploy/one-machine/setup first says what it will
// do, then does it, and a second run changes nothing. Started by systemd with the units as
// they are, without a network, the machine gets its gateway's certificates from an ACME
// server, takes a memory through the gateway, keeps it when
// its power is cut, copies it to another place and restores it from there, moves its master
// key to a device, and tells when a service is gone.
func TestOneMachine(t *testing.T) {
	slow(t)
	needs(t)
	t.Parallel()
	h := newHost(t)
	h.outside("the plan", `
		`+fingerprint+` >/tmp/before
		infra/deploy/one-machine/setup ledger.test | tee /tmp/plan
		grep -q 'Nothing was done yet' /tmp/plan
		`+fingerprint+` | cmp - /tmp/before`)
	h.outside("two runs", `
		infra/deploy/one-machine/setup ledger.test --yes
		rm /usr/sbin/policy-rc.d
		`+fingerprint+` >/tmp/before
		infra/deploy/one-machine/setup --yes
		`+fingerprint+` | cmp - /tmp/before
		[ "$(infra/deploy/one-machine/setup ledger.test)" = "nothing to do" ]
		grep -x QUOTA_BYTES_PER_DAY=100000000 /etc/memory-ledger/settings
		sed -i s/^TLS=.*/TLS=internal/ /etc/memory-ledger/settings
		key=/var/lib/ledger-key
		install -d -o ledger-key -m 700 $key $key/tokens
		echo "directories.tokendir = $key/tokens" >$key/softhsm2.conf
		SOFTHSM2_CONF=$key/softhsm2.conf setpriv --reuid=ledger-key --regid=ledger-key --clear-groups \
			softhsm2-util --init-token --free --label ledger --so-pin 12345678 --pin "$(cat /etc/memory-ledger/secrets/device_pin)"
		echo SOFTHSM2_CONF=$key/softhsm2.conf >>/etc/memory-ledger/settings
		sed -i "s|^DEVICE_KEY=.*|DEVICE_KEY='pkcs11:token=ledger;object=master?module-path=/usr/lib/softhsm/libsofthsm2.so'|" /etc/memory-ledger/settings
		infra/deploy/one-machine/setup --yes
		caddy adapt --config /etc/memory-ledger/Caddyfile | grep '"module":"internal"'`)
	h.outside("the units", `
		cd /etc/systemd/system
		systemd-analyze verify ledger.target ledger-*.service ledger-*.timer memory-ledger-alert@x.service
		for unit in ledger-*.service; do systemd-analyze security --offline=yes --threshold=20 --no-pager "$unit" >/dev/null; done`)

	h.boot()
	h.inside("changed settings", `
		echo 127.0.0.1 ledger.test extension.ledger.test >>/etc/hosts
		mkdir -p /srv/elsewhere && chown ledger-backup /srv/elsewhere
		mkdir /srv/acme && cd /srv/acme
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
			-addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem 2>/dev/null
		cat cert.pem >>/etc/ssl/certs/ca-certificates.crt
		echo '{"pebble": {"listenAddress": "127.0.0.1:14000", "managementListenAddress": "127.0.0.1:15000", "httpPort": 80, "tlsPort": 443,
			"certificate": "cert.pem", "privateKey": "key.pem", "profiles": {"default": {"description": "90 days", "validityPeriod": 7776000}}}}' >config.json
		systemd-run --quiet --unit=pebble --working-directory=$PWD --setenv=PEBBLE_VA_NOSLEEP=1 /srv/ledger/bin/pebble -config config.json
		until curl -fs --cacert cert.pem https://localhost:14000/dir https://localhost:15000/roots/0 -o /dev/null -o root.pem; do sleep 0.1; done
		cat root.pem >>/etc/ssl/certs/ca-certificates.crt
		sed -i s,^TLS=.*,TLS=https://localhost:14000/dir, /etc/memory-ledger/settings
		sed -i 's|^BACKUP_TO=.*|BACKUP_TO=/srv/elsewhere|; s|^ALERT_WEBHOOK=.*|ALERT_WEBHOOK=http://127.0.0.1:9|' /etc/memory-ledger/upkeep
		/srv/ledger/infra/deploy/one-machine/setup --yes`)
	h.inside("the first memory", calling+`
		for api in ledger.test extension.ledger.test; do until curl -fso /dev/null https://$api/health; do sleep 0.1; done; done
		ledger sign-in --keypair /srv/wallet --url https://ledger.test >/srv/token
		call https://ledger.test/memories -H 'Content-Type: application/json' -d '{"content": "the first memory"}'
		call https://ledger.test/mcp -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -d \
			'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"recall","arguments":{"query":"memory"}}}' | grep 'the first memory'
		ledger sign-in --keypair /srv/wallet --url https://extension.ledger.test >/dev/null
		for inner in metrics readyz; do [ "$(curl -so /dev/null -w '%{http_code}' https://ledger.test/$inner)" = 404 ]; done
		# curl may be told, after the answer, that the rest of the body is not wanted: 18.
		head -c 1100000 /dev/zero | { curl -sX POST https://ledger.test/memories --data-binary @- -o /dev/null -w '%{http_code}\n' || [ $? = 18 ]; } | grep -x 413`)
	h.cutPower()
	h.boot()
	h.inside("after the power came back", calling+`
		until curl -fso /dev/null http://127.0.0.1:3001/readyz && call -o /dev/null https://ledger.test/health; do sleep 0.1; done
		call https://ledger.test/memories | grep 'the first memory'
		ledger-admin verify`)
	h.inside("a backup and a drill", `
		mkdir /etc/systemd/system/ledger-check.service.d # how full the disk of the tests is, is not the machine's matter
		printf '[Service]\nTemporaryFileSystem=/var/lib\nBindReadOnlyPaths=/var/lib/ledger-backup\n' >/etc/systemd/system/ledger-check.service.d/disk.conf
		systemctl daemon-reload
		systemctl start ledger-backup ledger-drill ledger-check
		ls /srv/elsewhere/*/{log,keystore}/stream.json
		journalctl -u ledger-drill -o cat --no-pager | grep '^restored .* in .* s$'`)
	h.inside("a new machine with the old one's secrets", calling+`
		systemctl stop ledger.target
		rm -r /var/lib/private/ledger-log/*
		setpriv --reuid=postgres --regid=postgres --clear-groups dropdb ledger
		systemctl start ledger.target
		until curl -fso /dev/null http://127.0.0.1:3001/readyz; do sleep 0.1; done
		systemctl stop ledger-core ledger-extension ledger-projector ledger-anchorer
		time ledger-admin restore "$(ls -d /srv/elsewhere/* | tail -n 1)" # setup may have made a copy before
		systemctl start ledger.target
		until call -o /dev/null https://ledger.test/health && call https://ledger.test/memories; do sleep 0.1; done | grep 'the first memory'`)
	h.inside("the master key moves to a device", calling+`
		echo unix:/run/ledger-key/key.sock >/etc/memory-ledger/secrets/master_key_next
		ledger-rotate
		grep -x unix:/run/ledger-key/key.sock /etc/memory-ledger/secrets/master_key
		ledger-admin check-key /etc/memory-ledger/secrets/master_key
		call https://ledger.test/memories | grep 'the first memory'
		ledger-admin tail --admin | grep 'rewrap .*done'`)
	h.inside("a check", `
		perl -MIO::Socket -e '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:9", Listen => 1) or die; $| = 1; print "up\n"; $c = $s->accept;
			while (<$c>) { $n = $1 if /^content-length: (\d+)/i; last if /^\r?$/ } read $c, $b, $n; print $b; print $c "HTTP/1.1 204 No Content\r\n\r\n"' >/tmp/alert &
		until grep -q up /tmp/alert; do sleep 0.1; done
		systemctl stop ledger-extension
		! systemctl start ledger-check
		wait
		cat /tmp/alert
		grep -q '"text":.*ledger-check failed.*extension does not answer' /tmp/alert`)
}

// acmeServer is Let's Encrypt's own server for tests.
const acmeServer = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3"

// fingerprint prints mode, owner and hash of each file that setup might change.
const fingerprint = `(cd / && find etc usr/local var/lib/dpkg/status var/lib/ledger* -printf '%m %u %p\n' -type f -exec sha256sum {} + 2>/dev/null || true) | sort`

// calling is for scripts that use the API.
const calling = `
	call() { curl -fsS -H "Authorization: Bearer $(cat /srv/token)" "$@"; }
`

// host is an empty root that can be started, as a machine without a network.
type host struct {
	*testing.T
	root string
	init int // the process of its systemd
	run  *exec.Cmd
	said bytes.Buffer // of its start
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{T: t, root: emptyDebian(t, "bookworm")}
	repository, err := filepath.Abs("../..")
	must(t, err)
	do(t, "git", "clone", "--quiet", "--no-local", repository, h.root+"/srv/ledger")
	for program, from := range map[string]string{
		"ledger": "./services/cmd/ledger", "nats-server": "github.com/nats-io/nats-server/v2", "ledger-pkcs11": "./services/cmd/ledger-pkcs11",
	} {
		cgo := "CGO_ENABLED=0"
		if program == "ledger-pkcs11" { // it loads the device's library
			cgo = "CGO_ENABLED=1"
		}
		build := exec.CommandContext(t.Context(), "infra/build", filepath.Join(h.root, "srv/ledger/bin", program), from)
		build.Dir, build.Env = repository, append(os.Environ(), cgo)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v\n%s", program, err, out)
		}
	}
	pebble := exec.CommandContext(t.Context(), "go", "install", acmeServer)
	pebble.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+filepath.Join(h.root, "srv/ledger/bin"))
	if out, err := pebble.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", acmeServer, err, out)
	}
	// A Debian has it unless it is a container. Without it, packages start their programs
	// themselves; here they must not, since these would be killed with the script.
	h.outside("systemd", `
		printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d && chmod +x /usr/sbin/policy-rc.d
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd softhsm2 >/dev/null`)
	return h
}

// outside runs a script in the root, with this machine's network and without systemd.
func (h *host) outside(what, script string) {
	h.Helper()
	h.script(what, script, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		`mount -t proc proc $0/proc && mount --rbind /dev $0/dev && exec chroot $0 "$@"`, h.root)
}

// inside runs a script on the started machine.
func (h *host) inside(what, script string) {
	h.Helper()
	h.script(what, script, h.enter()...)
}

// enter is the command that runs another one on the started machine.
func (h *host) enter() []string {
	return []string{"nsenter", "-t", fmt.Sprint(h.init), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w"}
}

func (h *host) script(what, script string, enter ...string) {
	h.Helper()
	begun := time.Now()
	ctx, cancel := context.WithTimeout(h.Context(), 5*time.Minute)
	defer cancel()
	args := append(enter[1:], "/usr/bin/env", "-i", "HOME=/root", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"bash", "-euo", "pipefail", "-c", "cd /srv/ledger\n"+script)
	cmd := exec.CommandContext(ctx, enter[0], args...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	h.Logf("%s took %v", what, time.Since(begun).Round(time.Second/10))
	if err != nil {
		var log []byte
		if h.init != 0 {
			log, _ = exec.Command("nsenter", append(h.enter()[1:], "journalctl", "-n", "150", "--no-pager", "-o", "cat")...).CombinedOutput()
		}
		h.Fatalf("%s: %v\n%s\nthe machine's start:\n%s%s", what, err, out, h.said.Bytes(), log)
	}
	if testing.Verbose() {
		h.Logf("%s", out)
	}
}

// boot starts systemd in the root, in namespaces of its own: nothing outlives it, and it has
// no network but its own loopback.
func (h *host) boot() {
	h.Helper()
	h.said.Reset()
	h.run = exec.Command("unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child", "sh", "-euc", `
		mount --bind $0 $0
		mount -t proc proc $0/proc
		mount -t sysfs sysfs $0/sys
		mount -t cgroup2 cgroup2 $0/sys/fs/cgroup
		for folder in run tmp dev; do mount -t tmpfs tmpfs $0/$folder; done
		for device in null zero full random urandom tty; do touch $0/dev/$device; mount --bind /dev/$device $0/dev/$device; done
		ln -s /proc/self/fd pts/ptmx $0/dev/
		mkdir $0/dev/pts $0/dev/shm
		mount -t devpts -o newinstance,ptmxmode=0666 devpts $0/dev/pts
		ip link set lo up
		# Or the credentials of a service, which systemd mounts, do not get to it.
		mount --make-rshared /
		exec chroot $0 /usr/bin/env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=journal`, h.root)
	h.run.Stdout, h.run.Stderr = &h.said, &h.said
	must(h.T, h.run.Start())
	h.Cleanup(h.cutPower)
	h.awaitSystemd()
}

func (h *host) awaitSystemd() {
	h.Helper()
	children := fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", h.run.Process.Pid)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(children)
		if err != nil || time.Now().After(deadline) {
			h.Fatalf("no systemd: %v: %s", err, h.said.Bytes())
		}
		child := strings.TrimSpace(string(text))
		// systemctl can reach it.
		if _, err := os.Stat("/proc/" + child + "/root/run/systemd/private"); child == "" || err != nil {
			continue
		}
		_, err = fmt.Sscan(child, &h.init)
		must(h.T, err)
		return
	}
}

// cutPower ends every process of the machine at once.
func (h *host) cutPower() {
	_ = h.run.Process.Kill() // it may have ended
	_ = h.run.Wait()
}
