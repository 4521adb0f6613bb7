package config_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

func TestPartitionsAreRuns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"PROJECTOR_PARTITIONS", "ANCHOR_PARTITIONS"} {
		for _, bad := range []string{"00", "80-7f", "00-100", "00-FF", "0-ff", "all"} {
			_, err := config.Load([]string{name + "=" + bad})
			if err == nil || !strings.Contains(err.Error(), name+`: not a run of partitions, such as "00-7f": "`+bad+`"`) {
				t.Errorf("%s=%s: %v", name, bad, err)
			}
		}
		if _, err := config.Load([]string{name + "=40-7f"}); err != nil {
			t.Error(err)
		}
	}
	cfg, err := config.Load(nil)
	if err != nil || cfg.ProjectorPartitions != "00-ff" {
		t.Errorf("by default %q, %v", cfg.ProjectorPartitions, err)
	}
}
