package eventlog

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestDecodeAck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data string
		seq  uint64
		code jetstream.ErrorCode // 0 and no seq: any error
	}{
		"plain":          {`{"stream":"LEDGER","seq":42}`, 42, 0},
		"duplicate":      {`{"stream":"LEDGER","seq":42,"duplicate": true}`, 42, 0},
		"domain":         {`{"stream":"LEDGER","domain":"hub","seq":42}`, 42, 0},
		"refused":        {`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"},"stream":"LEDGER","seq":0}`, 0, 10071},
		"no sequence":    {`{"stream":"LEDGER","seq":0}`, 0, 0},
		"another stream": {`{"stream":"OTHER","seq":42}`, 0, 0},
		"too large":      {`{"stream":"LEDGER","seq":18446744073709551616}`, 0, 0},
		"negative":       {`{"stream":"LEDGER","seq":-1}`, 0, 0},
		"cut off":        {`{"stream":"LEDGER","seq":4`, 0, 0},
		"empty":          {``, 0, 0},
		"null":           {`null`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seq, err := decodeAck([]byte(c.data))
			if (err == nil) != (c.seq > 0) || seq != c.seq {
				t.Fatalf("got %d, %v", seq, err)
			}
			if c.code == 0 {
				return
			}
			if !IsWrongSequence(err) {
				t.Errorf("%v is not the refusal that it is", err)
			}
		})
	}
}
