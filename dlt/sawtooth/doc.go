// Package sawtooth builds, checks, submits and follows batches of Hyperledger
// Sawtooth, through the REST API of a node.
//
// Build and sign. A [Signer] is a [PrivateKey] or one of your own, such as an HSM:
//
//	key, err := sawtooth.ParsePrivateKey(hexKey)
//	b, err := sawtooth.Build(key, "", sawtooth.Transaction{
//		FamilyName: "intkey", FamilyVersion: "1.0", Nonce: rand.Text(),
//		Inputs: []string{addr}, Outputs: []string{addr}, Payload: payload,
//	})
//
// Batches that somebody else signed come in through [Parse] and [SplitBatchList],
// byte for byte as they are: signatures cover the bytes.
//
// Check. [Check] refuses, before anything is stored or sent, what a node would
// refuse or, worse, accept and never finish: a wrong signature, a dependency inside
// the same batch, an address in upper case.
//
//	err := sawtooth.Check(b) // a *batch.InputError that names the field
//
// Submit and follow. [Client] is a [dlt.Ledger], a [dlt.Checker], a [dlt.Resolver] and
// a [dlt.EventSource]; the engine calls it, and it can be used by itself:
//
//	c, err := sawtooth.New("http://localhost:8008", nil)
//	err = c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
//	st, err := c.BatchStatuses(ctx, "", []batch.Attempt{{Key: b.Key()}})
//
// Accepted (HTTP 202) is not durable, INVALID may still become COMMITTED, and
// UNKNOWN means many things: [Client.Traits] tells the engine how long to wait for
// what. A batch never takes effect twice on Sawtooth, whatever is sent how often. So
// one in doubt is simply sent again; [Client.Resolve] is for those that must not be,
// and tells for certain that one can no longer be committed. [Client.Events] listens
// to the node's blocks, each of which says "ask now" and nothing else.
//
// The facts about nodes that all of this rests on are in docs/ledgers/sawtooth.md, each with
// how it is known.
package sawtooth
