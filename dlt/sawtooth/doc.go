// Package sawtooth builds, checks, submits and follows batches of Hyperledger Sawtooth,
// through the REST API of a node.
//
// Build and sign. A [Signer] is a [PrivateKey] or your own type, for example for an HSM:
//
//	key, err := sawtooth.ParsePrivateKey(hexKey)
//	b, err := sawtooth.Build(key, "", sawtooth.Transaction{
//		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
//		Inputs: []string{addr}, Outputs: []string{addr}, Payload: payload,
//	})
//
// [Parse] and [SplitBatchList] read batches that others signed, and keep them byte for byte:
// signatures cover the bytes.
//
// Check. [Check] refuses, before anything is stored or sent, a batch that a node would refuse
// or, worse, accept and never finish: a wrong signature, a dependency inside the same batch,
// an address in upper case.
//
//	err := sawtooth.Check(b) // a *batch.InputError that names the field
//
// Submit and follow. [Client] is a [dlt.Ledger]. The engine calls it, and you can use
// it directly:
//
//	c, err := sawtooth.New("http://localhost:8008", nil)
//	err = c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
//	st, err := c.BatchStatuses(ctx, "", []batch.Attempt{{Key: b.Key()}})
//
// Accepted (HTTP 202) is not durable, INVALID may still become COMMITTED, and UNKNOWN means
// many things: [Client.Traits] gives the engine the times to wait. A batch never takes effect
// twice on Sawtooth, however often it is sent. So a batch in doubt is simply sent again.
// [Client.Resolve] is for batches that must not be sent again, and proves that one can no
// longer be committed. [Client.Events] listens to the node's blocks, each of which means "ask
// now" and nothing else.
//
// The facts about nodes behind all this are in docs/ledgers/sawtooth.md, each with its source.
package sawtooth
