package keystore

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// lastEntry asks for the newest message of the bucket.
const lastEntry = `{"last_by_subj":"$KV.` + Bucket + `.>"}`

// NewestMaster returns the id of the master key that wraps the newest entry of the bucket,
// or "" if there is no entry, the newest is a mark, or it can't be read. It takes one
// request, which the roles that read keys are allowed to make.
func NewestMaster(ctx context.Context, js jetstream.JetStream) (string, error) {
	answer, err := js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+Stream, []byte(lastEntry))
	if err != nil {
		return "", fmt.Errorf("newest data key: %w: %w", ErrUnavailable, err)
	}
	var got struct {
		Message struct {
			Data []byte `json:"data"`
		} `json:"message"`
		Error *struct {
			Code        int    `json:"code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &got); err != nil {
		return "", fmt.Errorf("newest data key: %w: %w", ErrUnavailable, err)
	}
	const none = 404
	switch {
	case got.Error != nil && got.Error.Code == none:
		return "", nil
	case got.Error != nil:
		return "", fmt.Errorf("newest data key: %w: %s", ErrUnavailable, got.Error.Description)
	}
	var e entry
	if json.Unmarshal(got.Message.Data, &e) != nil { // a mark has no data
		return "", nil
	}
	return e.Master, nil
}

// Fits returns an error that matches ErrMasterKey if a store with these master keys must
// not write beside an entry wrapped by the master key with that id: it could not read the
// existing keys, and would wrap new keys under a different master key.
func Fits(newest string, masters []MasterKey) error {
	known := ""
	for i, master := range masters {
		switch {
		case master.ID() == newest:
			return nil
		case i > 0:
			known += " and MASTER_KEY_PREVIOUS is "
		}
		known += master.ID()
	}
	if newest == "" {
		return nil
	}
	return fmt.Errorf("%w: the newest entry of the keystore names master key %s, MASTER_KEY is %s: "+
		"set MASTER_KEY, or MASTER_KEY_PREVIOUS beside a new one, to the key of that id", ErrMasterKey, newest, known)
}
