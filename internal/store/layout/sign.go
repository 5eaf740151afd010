package layout

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// signatureBytes of a signature are kept: nobody guesses them while an attempt runs.
const signatureBytes = 15

// Sign returns 20 characters that only a node of this installation can make for a text.
func (l *Layout) Sign(text string) string {
	mac := hmac.New(sha256.New, []byte(l.secret.Load().(string)))
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:signatureBytes])
}

// Signed reports whether Sign made the signature for the text.
func (l *Layout) Signed(text, signature string) bool {
	return hmac.Equal([]byte(l.Sign(text)), []byte(signature))
}
