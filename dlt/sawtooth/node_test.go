package sawtooth_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
)

// txOf returns a transaction of the node's family with this payload.
func txOf(nonce string, payload []byte, address string) sawtooth.Transaction {
	return sawtooth.Transaction{
		FamilyName: sawtoothtest.IntKey.Name, FamilyVersion: sawtoothtest.IntKey.Version, Nonce: nonce,
		Inputs: []string{address}, Outputs: []string{address}, Payload: payload,
	}
}

// batchOf returns a batch of one transaction.
func batchOf(t testing.TB, nonce string, payload []byte, address string) batch.Batch {
	t.Helper()
	b, err := sawtooth.Build(mustKey(t, privateKey1), "", txOf(nonce, payload, address))
	require.NoError(t, err)
	return b
}

// settingBatch returns a batch that sets a name to 1.
func settingBatch(t testing.TB, name string) batch.Batch {
	payload, address := sawtoothtest.Set(name, 1)
	return batchOf(t, name, payload, address)
}

// submitUntil submits b, and waits until the node reports the status word.
func submitUntil(t testing.TB, n *sawtoothtest.Node, c *sawtooth.Client, b batch.Batch, word string) {
	t.Helper()
	require.NoError(t, c.Submit(context.Background(), batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload}))
	require.Eventually(t, func() bool { return n.Status(b.ID) == word }, 10*time.Second, time.Millisecond, "never %s", word)
}

func commitSetting(t testing.TB, n *sawtoothtest.Node, c *sawtooth.Client, name string) batch.Batch {
	t.Helper()
	b := settingBatch(t, name)
	submitUntil(t, n, c, b, sawtoothtest.Committed)
	return b
}
