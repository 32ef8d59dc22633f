// Bytes as the text in which JSON holds them.

const CHUNK = 0x8000;

/** Return bytes in Base64. */
export function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(start, start + CHUNK));
  }
  return btoa(text);
}

/** Return the bytes of a value of a request: those of `{b64: text}`, or of a string. */
export function bytesOf(value) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value.b64), (character) => character.charCodeAt(0));
}
