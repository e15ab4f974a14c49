package sawtooth_test

import (
	"math/big"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/stretchr/testify/require"
)

// highS is the other signature that mathematics accepts: s replaced by n - s.
func highS(t testing.TB, sig string) string {
	t.Helper()
	s, ok := new(big.Int).SetString(sig[64:], 16)
	require.True(t, ok)
	s.Sub(secp256k1.S256().N, s)
	h := s.Text(16)
	for len(h) < 64 {
		h = "0" + h
	}
	return sig[:64] + h
}
