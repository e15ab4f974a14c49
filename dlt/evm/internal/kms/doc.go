// Package kms has the snippets of docs/evm.md#keys-in-a-kms-or-hsm. Each is compiled with a fake
// of its SDK, which has the names, types and methods that the snippet uses, and a key that signs
// as the service does. So the snippets are compiled and run, and the library requires no SDK.
package kms
