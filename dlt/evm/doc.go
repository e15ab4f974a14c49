// Package evm checks, submits and follows transactions of EVM chains (Ethereum, its
// layers and private networks), through the JSON-RPC of their nodes.
//
// A batch of [Client] is one signed transaction of type 0 (with a chain id), 1, 2 or 4. Its id is
// the transaction's hash, and its service, and so its lane, is the account that signed. [NewBatch]
// reads both from the bytes:
//
//	b, err := evm.NewBatch(signed)
//
// Keys, nonces and fees stay with the signer. Several transactions of one nonce, signed with
// rising fees, are one batch, too ([Alternatives]): so fees can rise without a key. [Client] is a
// [dlt.Ledger]. The engine calls it, and you can use it directly:
//
//	c, err := evm.New("http://localhost:8545", 31337, nil)
//	err = c.Submit(ctx, batch.Attempt{Key: b.Key(), Number: 1, Payload: b.Payload})
//	st, err := c.BatchStatuses(ctx, b.Service, []batch.Attempt{{Key: b.Key()}})
//
// A chain executes the same bytes once, however often they are sent, because each nonce of an
// account is used once. So the engine simply sends a batch in doubt again, and nothing ever
// changes a nonce. The client says Committed and Invalid (reverted) only of transactions in blocks
// that are deep enough ([Options].Finality); before that a batch is Valid, and a reorganization
// may take it back. A batch is Rejected only where no node could ever execute it: it breaks a rule
// of the chain, or another transaction has used its nonce in a deep block. A node's own policy
// (its prices, caps and limits), missing funds and a nonce whose turn has not come are
// [dlt.ErrNotYet].
//
// [SigningClient] is the other client: its batches are intents ([Intent]), and it chooses the
// nonce and asks a [Signer] and [Fees] for the rest. All transactions that it has ever signed for
// a batch have one nonce, and are kept with the batch before any of them is sent.
//
// docs/evm.md describes lanes, statuses and depth, and the risk of each depth.
package evm
