package config_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

func TestStakingSettings(t *testing.T) {
	t.Parallel()
	const address = "11111111111111111111111111111111"
	for name, test := range map[string]struct {
		environ []string
		want    string // part of the error
	}{
		"dormant":           {nil, ""},
		"alive":             {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=" + address, "SOLANA_RPC_URL=http://u", "MIN_PARTIAL_UNSTAKE=18446744073709551615", "STAKE_MATURITY=0s"}, ""},
		"no chain":          {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=" + address}, "SOLANA_RPC_URL"},
		"no address":        {[]string{"STAKE_MINT=" + address, "STAKING_PROGRAM_ID=0", "SOLANA_RPC_URL=http://u"}, "STAKING_PROGRAM_ID"},
		"half":              {[]string{"STAKE_MINT=m", "SOLANA_RPC_URL=u"}, "set both or neither"},
		"negative minimum":  {[]string{"MIN_PARTIAL_UNSTAKE=-1"}, "MIN_PARTIAL_UNSTAKE"},
		"maturity past":     {[]string{"STAKE_MATURITY=-1h"}, "STAKE_MATURITY"},
		"maturity unitless": {[]string{"STAKE_MATURITY=24"}, "STAKE_MATURITY"},
	} {
		cfg, err := config.Load(test.environ)
		if err == nil {
			err = cfg.Check(config.NeedStaking)
		}
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
