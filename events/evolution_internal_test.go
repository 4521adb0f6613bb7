package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// apiKeyCreatedV6 is an example of a version 6: keys that name the networks from which
// they may be used. It exists only here. A key of version 5 could be used from any
// network, and its upcast says so.
type apiKeyCreatedV6 struct {
	KeyID      string     `json:"keyId"`
	KeyHash    Hash       `json:"keyHash"`
	Prefix     string     `json:"prefix"`
	Label      string     `json:"label"`
	Scopes     []Scope    `json:"scopes"`
	ExpiresAt  *Timestamp `json:"expiresAt,omitzero"`
	CreatedBy  *Via       `json:"createdBy,omitzero"`
	Namespaces []string   `json:"namespaces,omitzero"`
	App        *App       `json:"app,omitzero"`
	Networks   []string   `json:"networks"`
}

func (*apiKeyCreatedV6) EventType() Type { return TypeApiKeyCreated }

func addNetworks(v5 jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v5, &members); err != nil {
		return nil, err
	}
	if _, has := members["networks"]; has {
		return nil, errors.New("version 5 has no networks")
	}
	members["networks"] = jsontext.Value(`["any"]`)
	v6, err := json.Marshal(members)
	return v6, err
}

// raised is the catalogue with ApiKeyCreated at version 6.
func raised(upcasts ...Upcast) []Definition {
	definitions := Catalogue()
	i := slices.IndexFunc(definitions, func(d Definition) bool { return d.Type == TypeApiKeyCreated })
	definitions[i].Version, definitions[i].Upcasts = 6, append(slices.Clone(definitions[i].Upcasts), upcasts...)
	definitions[i].New = func() Data { return new(apiKeyCreatedV6) }
	return definitions
}

// TestVersionTwo: a key of version 1 may read and write for as long as it is not revoked.
func TestVersionTwo(t *testing.T) {
	v1, err := os.ReadFile("testdata/golden/ApiKeyCreated.v1.json")
	must(t, err)
	batch, err := DecodeBatch(v1)
	must(t, err)
	created, ok := batch[0].Data.(*ApiKeyCreated)
	if !ok || JoinScopes(created.Scopes) != "read,write" || created.ExpiresAt != nil || created.Label != "laptop" {
		t.Errorf("got %+v", batch[0].Data)
	}
	for _, forged := range []string{`"scopes":["retract"],"label"`, `"expiresAt":"2030-01-01T00:00:00.000Z","label"`} {
		if _, err := DecodeBatch([]byte(strings.Replace(string(v1), `"label"`, forged, 1))); err == nil {
			t.Errorf("the upcast took %s, which version 1 never wrote", forged)
		}
	}
}

// TestVersionSix: the bytes of version 5 in the log are read as version 6. New events
// are written as version 6, and both are read alike.
func TestVersionSix(t *testing.T) {
	v1, err := os.ReadFile("testdata/golden/ApiKeyCreated.v1.json")
	must(t, err)
	v5, err := os.ReadFile("testdata/golden/ApiKeyCreated.v5.json")
	must(t, err)
	c := newCodec(raised(addNetworks))
	// From version 1, through all upcasts.
	oldest, err := c.decodeBatch(v1)
	must(t, err)
	if created := oldest[0].Data.(*apiKeyCreatedV6); JoinScopes(created.Scopes) != "read,write" || !slices.Equal(created.Networks, []string{"any"}) {
		t.Errorf("got %+v", created)
	}
	batch, err := c.decodeBatch(v5)
	must(t, err)
	created, ok := batch[0].Data.(*apiKeyCreatedV6)
	if !ok || !slices.Equal(created.Networks, []string{"any"}) || created.Label != "laptop" {
		t.Fatalf("got %+v", batch[0].Data)
	}
	v6, err := c.encodeBatch(batch)
	must(t, err)
	want := strings.Replace(string(v5), "ApiKeyCreated:5", "ApiKeyCreated:6", 1)
	want = strings.Replace(want, `}}]`, `,"networks":["any"]}}]`, 1)
	if string(v6) != want {
		t.Errorf("got\n%s, want\n%s", v6, want)
	}
	created.Networks = []string{"home"}
	v6, err = c.encodeBatch(batch)
	must(t, err)
	if batch, err = c.decodeBatch(v6); err != nil || !slices.Equal(batch[0].Data.(*apiKeyCreatedV6).Networks, []string{"home"}) {
		t.Errorf("version 6 is not read as it was written: %v, %v", batch, err)
	}
	// The previous build refuses the version that it does not know.
	if _, err := DecodeBatch(v6); !errors.Is(err, ErrUnknownVersion) {
		t.Errorf("version 5's build says: %v", err)
	}
	// Data that claims to be version 5, but is not, is refused.
	forged := strings.Replace(string(v5), `"label"`, `"networks":[],"label"`, 1)
	if _, err := c.decodeBatch([]byte(forged)); err == nil {
		t.Error("an upcast took what version 5 never wrote")
	}
	// All other golden files are read as before.
	for _, payload := range goldenPayloads(t) {
		if _, err := c.decodeBatch(payload); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// goldenPayloads returns the golden files as messages of one event each.
func goldenPayloads(t testing.TB) [][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var payloads [][]byte
	for _, path := range paths {
		payload, err := os.ReadFile(path)
		must(t, err)
		payloads = append(payloads, bytes.TrimSpace(payload))
	}
	return payloads
}

// incomplete lists the files, upcasts, and versions that a catalogue lacks.
func incomplete(definitions []Definition) (missing []string) {
	lacks := func(path string) {
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, path)
		}
	}
	for _, d := range definitions {
		for version := 1; version <= d.Version; version++ {
			name := strings.TrimPrefix(SchemaURI(d.Type, version), schemaPrefix)
			name = strings.Replace(name, ":", ".v", 1) + ".json"
			lacks(filepath.Join("testdata", "golden", name))
			lacks(filepath.Join("schema", name))
			if version < d.Version && (len(d.Upcasts) < version || d.Upcasts[version-1] == nil) {
				missing = append(missing, "upcast of "+SchemaURI(d.Type, version))
			}
		}
		if len(d.Upcasts) > d.Version-1 {
			missing = append(missing, "version for an upcast of "+string(d.Type))
		}
	}
	return missing
}

// TestEveryVersionIsComplete: every version has a golden file and a schema, and every
// version but the newest has an upcast. A catalogue that was raised without them is
// caught.
func TestEveryVersionIsComplete(t *testing.T) {
	if missing := incomplete(catalogue); len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
	const golden, schema = "testdata/golden/ApiKeyCreated.v6.json", "schema/ApiKeyCreated.v6.json"
	if missing := incomplete(raised()); !slices.Equal(missing, []string{"upcast of urn:memory-ledger:event:ApiKeyCreated:5", golden, schema}) {
		t.Errorf("found missing: %v", missing)
	}
	if missing := incomplete(raised(addNetworks)); !slices.Equal(missing, []string{golden, schema}) {
		t.Errorf("found missing: %v", missing)
	}
}
