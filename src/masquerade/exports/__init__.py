"""A released model in forms that other programs read: ONNX, skops, and a model card for people and for hubs.

Every form takes raw columns, as a table holds them, and brings along the encoding that the study defines. Every form
also says where the model comes from: :class:`~masquerade.exports.provenance.Provenance`.
"""
