"""Tests of the codec: published messages, messages of other products, all messages that Mercury sends, and attacks."""
