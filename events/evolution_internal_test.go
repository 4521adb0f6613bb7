package events

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A worked version 2: keys that say what they may do. It exists here only. A
// key of version 1 could do everything, and that is what its upcast says.
type apiKeyCreatedV2 struct {
	KeyID   string   `json:"keyId"`
	KeyHash Hash     `json:"keyHash"`
	Prefix  string   `json:"prefix"`
	Label   string   `json:"label"`
	Scopes  []string `json:"scopes"`
}

func (*apiKeyCreatedV2) EventType() Type { return TypeApiKeyCreated }

func addScopes(v1 jsontext.Value) (jsontext.Value, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(v1, &members); err != nil {
		return nil, err
	}
	if _, has := members["scopes"]; has {
		return nil, errors.New("version 1 has no scopes")
	}
	members["scopes"] = jsontext.Value(`["read","write"]`)
	v2, err := json.Marshal(members)
	return v2, err
}

// raised is the catalogue with ApiKeyCreated at version 2.
func raised(upcasts ...Upcast) []Definition {
	definitions := Catalogue()
	i := slices.IndexFunc(definitions, func(d Definition) bool { return d.Type == TypeApiKeyCreated })
	definitions[i].Version, definitions[i].Upcasts = 2, upcasts
	definitions[i].New = func() Data { return new(apiKeyCreatedV2) }
	return definitions
}

// TestVersionTwo: the bytes of version 1, as they lie in the log, are read as
// version 2; what is written from then on is version 2, and both are read alike.
func TestVersionTwo(t *testing.T) {
	v1, err := os.ReadFile("testdata/golden/ApiKeyCreated.v1.json")
	if err != nil {
		t.Fatal(err)
	}
	c := newCodec(raised(addScopes))
	batch, err := c.decodeBatch(v1)
	if err != nil {
		t.Fatal(err)
	}
	created, ok := batch[0].Data.(*apiKeyCreatedV2)
	if !ok || !slices.Equal(created.Scopes, []string{"read", "write"}) || created.Label != "laptop" {
		t.Fatalf("got %+v", batch[0].Data)
	}
	v2, err := c.encodeBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(string(v1), "ApiKeyCreated:1", "ApiKeyCreated:2", 1)
	want = strings.Replace(want, `"label":"laptop"`, `"label":"laptop","scopes":["read","write"]`, 1)
	if string(v2) != want {
		t.Errorf("got\n%s, want\n%s", v2, want)
	}
	created.Scopes = []string{"read"}
	if v2, err = c.encodeBatch(batch); err != nil {
		t.Fatal(err)
	}
	var quick Event
	if !c.decodeCanonical(v2, &quick) || c.decodeCanonical(v1, &quick) {
		t.Error("the quick decoder is for the newest version, and for no other")
	}
	if batch, err = c.decodeBatch(v2); err != nil || !slices.Equal(batch[0].Data.(*apiKeyCreatedV2).Scopes, []string{"read"}) {
		t.Errorf("version 2 is not read as it was written: %v, %v", batch, err)
	}
	// The build from before does not guess at what it does not know.
	if _, err := DecodeBatch(v2); !errors.Is(err, ErrUnknownVersion) {
		t.Errorf("version 1's build says: %v", err)
	}
	// And what claims to be version 1, but is not, is refused.
	forged := strings.Replace(string(v1), `"label"`, `"scopes":[],"label"`, 1)
	if _, err := c.decodeBatch([]byte(forged)); err == nil {
		t.Error("an upcast took what version 1 never wrote")
	}
	// All other golden files are read as ever.
	for _, payload := range goldenPayloads(t) {
		if _, err := c.decodeBatch(payload); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

// incomplete lists what the versions of a catalogue lack.
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

// TestEveryVersionIsComplete: no version without golden file and schema, none
// but the newest without upcast. A catalogue that was raised without them is
// caught.
func TestEveryVersionIsComplete(t *testing.T) {
	if missing := incomplete(catalogue); len(missing) > 0 {
		t.Errorf("missing: %v", missing)
	}
	const golden, schema = "testdata/golden/ApiKeyCreated.v2.json", "schema/ApiKeyCreated.v2.json"
	if missing := incomplete(raised()); !slices.Equal(missing, []string{"upcast of urn:memory-ledger:event:ApiKeyCreated:1", golden, schema}) {
		t.Errorf("found missing: %v", missing)
	}
	if missing := incomplete(raised(addScopes)); !slices.Equal(missing, []string{golden, schema}) {
		t.Errorf("found missing: %v", missing)
	}
}
