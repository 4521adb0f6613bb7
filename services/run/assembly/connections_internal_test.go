package assembly

import (
	"math"
	"testing"
)

func TestConnectionsWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		files uint64
		apis  int
		want  int
	}{
		{math.MaxUint64, 1, 2048},
		{20000, 2, 2048},
		{1024, 1, 928},
		{1024, 2, 464},
		{256, 2, 80},
		{64, 1, leastConnections},
		{0, 2, leastConnections},
	} {
		if got := connectionsWithin(test.files, test.apis, 16); got != test.want {
			t.Errorf("%d files for %d APIs: %d connections, want %d", test.files, test.apis, got, test.want)
		}
	}
}
