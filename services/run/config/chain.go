package config

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
)

// Authority reads the key pair that signs commitments and checks that its halves belong
// together. Otherwise no key would verify its signatures.
func (c *Config) Authority() (solana.PrivateKey, error) {
	if err := required("AUTHORITY_KEYPAIR", c.AuthorityKeypair); err != nil {
		return nil, err
	}
	key, err := solana.PrivateKeyFromSolanaKeygenFile(c.AuthorityKeypair)
	if err != nil {
		return nil, fmt.Errorf("AUTHORITY_KEYPAIR: cannot read a Solana key pair from %s", c.AuthorityKeypair)
	}
	if len(key) != ed25519.PrivateKeySize || !ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]).Equal(ed25519.PrivateKey(key)) {
		return nil, fmt.Errorf("AUTHORITY_KEYPAIR: the halves of the key pair in %s do not belong together", c.AuthorityKeypair)
	}
	return key, nil
}

// Program returns the address of the commitment program.
func (c *Config) Program() (solana.PublicKey, error) {
	return address("COMMITMENT_PROGRAM_ID", c.CommitmentProgramID)
}

// Stake returns the addresses of the stake mint and the staking program.
func (c *Config) Stake() (mint, program solana.PublicKey, err error) {
	mint, errMint := address("STAKE_MINT", c.StakeMint)
	program, errProgram := address("STAKING_PROGRAM_ID", c.StakingProgramID)
	return mint, program, errors.Join(errMint, errProgram)
}

func address(name, text string) (solana.PublicKey, error) {
	if err := required(name, text); err != nil {
		return solana.PublicKey{}, err
	}
	const longest = 44 // decoding takes time that grows with the square of the length
	if len(text) <= longest {
		if key, err := solana.PublicKeyFromBase58(text); err == nil {
			return key, nil
		}
	}
	return solana.PublicKey{}, fmt.Errorf("%s: not a base58 address", name)
}

// Chain returns a client of the chain's endpoint. It does not connect.
func (c *Config) Chain() (*chain.Client, error) {
	if err := required("SOLANA_RPC_URL", c.SolanaRPCURL); err != nil {
		return nil, err
	}
	client, err := chain.New(c.SolanaRPCURL)
	if err != nil {
		return nil, fmt.Errorf("SOLANA_RPC_URL: %w", err)
	}
	return client, nil
}
