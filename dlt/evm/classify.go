package evm

import (
	"slices"
	"strings"
)

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

// textClasses are the texts of nodes in lower case, in the order in which they are looked for: the
// first that occurs decides. Nodes are told apart by nothing else, since the codes of one mean
// other things at another; proxies put their own words around the text.
var textClasses = []struct {
	class class
	texts []string
}{
	{classNotYet, []string{"unknown transaction"}}, // a type that this node does not know; it holds "known transaction"
	{classAccepted, []string{"already known", "alreadyknown", "known transaction", "already imported", "already exists", "same hash"}},
	{classMisconfigured, []string{
		"chain id", "chainid", "replay-protected", "pool not enabled", "does not exist/is not available", "method not found",
		"api key", "unauthorized", "authenticat",
	}},
	{classNotYet, []string{
		"account limit exceeded", "in-flight transaction limit", "already reserved", "conflicting type",
		"gas limit exceeded", "size limit exceeded", "fee limit exceeded", "blob limit exceeded",
	}},
	{classBusy, append([]string{"limit exceeded", "txpool is full", "sub-pool is full", "queue full", "pending tx pool full"}, busyTexts...)},
	{classUsed, []string{"nonce too low", "oldnonce", "invalid transaction nonce", "nonce is too low"}},
	{classDoubt, []string{"replacement transaction underpriced", "replacement not allowed", "replacementnotallowed", "ownnoncealreadyused"}},
	// A node's own policy, the state of the account, and what the next block may bring.
	{classNotYet, []string{
		"nonce too high", "noncegap", "nonce gap", "too distant", "too far in", "gapped",
		"insufficient funds", "insufficientfunds", "upfront cost exceeds",
		"below current base fee", "less than block base fee", "underpriced", "gas price below", "fee too low", "feetoolow",
		"intrinsic gas too high", "exceeds block gas limit", "gas limit reached", "oversized data",
		"exceeds the configured cap", "fee cap exceeded", "type not supported",
		// Check has made sure of what every chain asks for. A layer asks for the price of its data
		// on L1, too.
		"intrinsic gas", "floor data gas", "failed to decode", "rlp:", "not an eoa",
		// The hash does not cover the blobs: somebody else may send it with the right ones.
		"blob", "sidecar", "versioned hash", "kzg",
	}},
	{classNever, []string{
		"gas limit too high", "max initcode", "negative value", "higher than max fee",
		"invalid sender", "invalid signature", "invalid transaction v, r, s", "recover the signer",
	}},
}

// busyTexts are the texts by which providers say that a client asks too often.
var busyTexts = []string{
	"rate limit", "ratelimit", "rate-limit", "request limit", "too many requests", "too many connections", "compute units", "request rate",
	"rate exceeded", "request count exceeded", "requests per", "rps limit", "throttl", "quota", "slow down", "capacity exceeded",
}

// saysBusy reports whether a text, such as a proxy's, says that a client asks too often.
func saysBusy(text string) bool {
	text = strings.ToLower(text)
	return slices.ContainsFunc(busyTexts, func(t string) bool { return strings.Contains(text, t) })
}

// Codes of the protocol itself (EIP-1474), and HTTP's 429, which providers use as a code.
// They count where the text is not known: nodes have other uses for them.
const (
	codeMethodNotFound  = -32601
	codeLimitExceeded   = -32005
	codeTooManyRequests = 429
)

func classify(err *rpcError) class {
	text := strings.ToLower(err.Message)
	for _, w := range textClasses {
		for _, t := range w.texts {
			if strings.Contains(text, t) {
				return w.class
			}
		}
	}
	switch err.Code {
	case codeMethodNotFound:
		return classMisconfigured
	case codeLimitExceeded, codeTooManyRequests:
		return classBusy
	}
	return classDoubt
}
