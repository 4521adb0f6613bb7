package memory

import (
	"strconv"

	"github.com/memory-ledger/ledger/events/canonical"
)

// AppendJSON appends the view as JSON: what the general encoder makes of it, at
// a quarter of the price. An answer may hold a hundred thousand of them.
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
	b = append(b, '"')
	if v.Score != nil {
		b = strconv.AppendFloat(append(b, `,"score":`...), *v.Score, 'g', -1, 64)
	}
	return append(b, '}'), nil
}
