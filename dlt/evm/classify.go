package evm

import (
	"slices"
	"strings"
)

// answerClass is the meaning of a node's answer to a transaction that was sent.
type answerClass uint8

const (
	// classDoubt: anything may have happened; an earlier send of this transaction may be the
	// reason.
	classDoubt answerClass = iota
	// classAccepted: the node has these very bytes.
	classAccepted
	// classUsed: the nonce is used, by these bytes or by others. The answer is doubt until that is
	// known.
	classUsed
	// classNotYet: this transaction cannot be accepted now; others may be.
	classNotYet
	// classBusy: the node accepts nothing now.
	classBusy
	// classNever: the transaction breaks a rule of the chain, so no node can execute it.
	classNever
	// classMisconfigured: the node does not fit this client.
	classMisconfigured
)

// textClasses are texts of nodes in lower case, in the order in which they are looked for: the
// first text that occurs decides. A text decides before any code, since one code means different
// things on different nodes. A proxy may add its own text around a node's.
var textClasses = []struct {
	class answerClass
	texts []string
}{
	{classNotYet, []string{"unknown transaction"}}, // a type that this node does not know; the text contains "known transaction"
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
	// The reason is the node's own policy, the state of the account, or something that the next
	// block may change.
	{classNotYet, []string{
		"nonce too high", "noncegap", "nonce gap", "too distant", "too far in", "gapped",
		"insufficient funds", "insufficientfunds", "upfront cost exceeds",
		"below current base fee", "less than block base fee", "underpriced", "gas price below", "fee too low", "feetoolow",
		"intrinsic gas too high", "exceeds block gas limit", "gas limit reached", "oversized data",
		"exceeds the configured cap", "fee cap exceeded", "type not supported",
		// Check has verified the rules that every chain has. A layer 2 also asks for the price of
		// the data on L1.
		"intrinsic gas", "floor data gas", "failed to decode", "rlp:", "not an eoa",
		// The hash does not cover the blobs: somebody else may send the transaction with the right
		// blobs.
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

// Codes of the protocol (EIP-1474), and HTTP's 429, which providers use as a code. A code decides
// only if the text is not known, because nodes use the codes for other reasons, too.
const (
	codeMethodNotFound  = -32601
	codeLimitExceeded   = -32005
	codeTooManyRequests = 429
)

func classify(err *rpcError) answerClass {
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
