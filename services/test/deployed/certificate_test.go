package deployed_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheLogsCertificateIsWatched: a service exports when the certificate of the log's
// nodes expires.
func TestTheLogsCertificateIsWatched(t *testing.T) {
	d := deploy(t)
	addr := freeAddr(t)
	p := d.projector("OPS_ADDR=" + addr)
	waitFor(t, "http://"+addr+"/readyz", p.Done(), p.log)
	text, err := os.ReadFile(filepath.Join(d.Secrets, "nats_certificate"))
	must(t, err)
	block, _ := pem.Decode(text)
	certificate, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	answer, err := http.Get("http://" + addr + "/metrics")
	must(t, err)
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	must(t, err)
	const metric = "ledger_certificate_expiry_timestamp_seconds"
	for of, want := range map[string]float64{"log": float64(certificate.NotAfter.Unix()), "database": 0} { // a socket has none
		if line := fmt.Sprintf("%s{of=%q} %v\n", metric, of, want); !strings.Contains(string(said), line) {
			t.Errorf("no %s", line)
		}
	}
}
