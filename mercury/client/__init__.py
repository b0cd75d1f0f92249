"""The API by which an application sends."""
