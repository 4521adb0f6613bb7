package pkcs11_test

import (
	"testing"

	"github.com/memory-ledger/ledger/services/keystore/pkcs11"
)

func TestParseURI(t *testing.T) {
	t.Parallel()
	good := pkcs11.URI{Token: "my ledger", Object: "master", Module: "/lib/m.so", PINFile: "/run/pin"}
	for text, want := range map[string]pkcs11.URI{
		"pkcs11:token=my%20ledger;object=master?module-path=/lib/m.so&pin-source=file:/run/pin": good,
		"pkcs11:object=master;token=my%20ledger?pin-source=/run/pin&module-path=/lib/m.so":      good,
		"pkcs11:serial=1;object=m?module-path=/m&pin-source=/p":                                 {Serial: "1", Object: "m", Module: "/m", PINFile: "/p"},
	} {
		if got, err := pkcs11.ParseURI(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "token=t;object=o?module-path=/m&pin-source=/p", "pkcs11:token=t;object=o", "pkcs11:token=t?module-path=/m&pin-source=/p",
		"pkcs11:object=o?module-path=/m&pin-source=/p", "pkcs11:token=t;object=o?module-path=m&pin-source=/p",
		"pkcs11:token=t;object=o?module-path=/m&pin-value=1234&pin-source=/p", "pkcs11:token=t;token=u;object=o?module-path=/m&pin-source=/p",
		"pkcs11:token=%zz;object=o?module-path=/m&pin-source=/p", "pkcs11:token=t;object=o;module-path=/m?pin-source=/p",
	} {
		if got, err := pkcs11.ParseURI(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
