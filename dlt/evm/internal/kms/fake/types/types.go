// Package types is a fake of github.com/aws/aws-sdk-go-v2/service/kms/types.
package types

// MessageType says whether a message or its hash is signed.
type MessageType string

// MessageTypeDigest is for a digest, which is signed without hashing it again.
const MessageTypeDigest MessageType = "DIGEST"

// SigningAlgorithmSpec is an algorithm.
type SigningAlgorithmSpec string

// SigningAlgorithmSpecEcdsaSha256 is the algorithm of keys on secp256k1.
const SigningAlgorithmSpecEcdsaSha256 SigningAlgorithmSpec = "ECDSA_SHA_256"
