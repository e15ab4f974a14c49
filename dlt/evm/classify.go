package evm

import "strings"

// class is the meaning of a node's words for a transaction that was sent.
type class uint8

const (
	// classDoubt: anything may have happened, or an earlier send of ours may be the reason.
	classDoubt class = iota
	// classAccepted: the node has these very bytes.
	classAccepted
	// classUsed: the nonce is used, by these bytes or others. It is doubt until that is known.
	classUsed
	// classNotYet: this transaction cannot be now; others may.
	classNotYet
	// classBusy: nothing can be now.
	classBusy
	// classNever: it breaks a rule of the chain, so that no node can execute it.
	classNever
	// classMisconfigured: the node is not one for this client.
	classMisconfigured
)

// words are the texts of nodes in lower case, in the order in which they are looked for: the
// first that occurs decides. Nodes are told apart by nothing else, since the codes of one mean
// other things at another; proxies put their own words around the text.
var words = []struct {
	class class
	texts []string
}{
	{classNotYet, []string{"unknown transaction"}}, // a type that this node does not know; it holds "known transaction"
	{classAccepted, []string{"already known", "alreadyknown", "known transaction", "already imported", "already exists", "same hash"}},
	{classMisconfigured, []string{
		"chain id", "chainid", "replay-protected", "pool not enabled", "does not exist/is not available", "method not found",
		"api key", "unauthorized", "authenticat",
	}},
	{classNotYet, []string{"account limit exceeded", "in-flight transaction limit", "already reserved", "conflicting type"}},
	{classBusy, []string{
		"rate limit", "request limit", "too many requests", "compute units", "txpool is full", "sub-pool is full",
		"queue full", "pending tx pool full",
	}},
	{classUsed, []string{"nonce too low", "oldnonce", "invalid transaction nonce", "nonce is too low"}},
	{classDoubt, []string{"replacement transaction underpriced", "replacement not allowed", "replacementnotallowed", "ownnoncealreadyused"}},
	// A node's own policy, the state of the account, and what the next block may bring.
	{classNotYet, []string{
		"nonce too high", "noncegap", "nonce gap", "too distant", "too far in", "gapped",
		"insufficient funds", "insufficientfunds", "upfront cost exceeds",
		"below current base fee", "less than block base fee", "underpriced", "gas price below", "fee too low", "feetoolow",
		"intrinsic gas too high", "exceeds block gas limit", "gas limit reached", "oversized data",
		"exceeds the configured cap", "fee cap exceeded", "type not supported", "failed to decode", "rlp:", "not an eoa",
	}},
	{classNever, []string{
		"intrinsic gas", "floor data gas", "gas limit too high", "max initcode", "negative value", "higher than max fee",
		"invalid sender", "invalid signature", "invalid transaction v, r, s", "recover the signer",
	}},
}

// noMethod is the one code that the protocol itself fixes.
const noMethod = -32601

func classify(err *rpcError) class {
	text := strings.ToLower(err.Message)
	for _, w := range words {
		for _, t := range w.texts {
			if strings.Contains(text, t) {
				return w.class
			}
		}
	}
	if err.Code == noMethod {
		return classMisconfigured
	}
	return classDoubt
}
